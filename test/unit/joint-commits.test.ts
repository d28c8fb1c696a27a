/** The broker is a list of requests that the test answers. */
import { expect } from 'chai'
import { type OffsetToCommit, openJointCommits } from '#infra/kafka/joint-commits.ts'

const at = (partition: number, offset: number): OffsetToCommit => ({
  topic: 'market.book-changes',
  partition,
  offset: String(offset),
})

function openBroker() {
  const requests: { offsets: OffsetToCommit[]; answer: PromiseWithResolvers<void> }[] = []
  const commit = openJointCommits(offsets => {
    const answer = Promise.withResolvers<void>()
    requests.push({ offsets, answer })
    return answer.promise
  })
  const answered = async (request: number): Promise<void> => {
    requests[request]?.answer.resolve()
    await new Promise(setImmediate)
  }
  return { requests, commit, answered }
}

describe('joint commits', () => {
  it('resolve no sooner than the answer to the request that held them', async () => {
    const { commit, answered } = openBroker()
    const settled: string[] = []
    const first = commit(at(0, 1)).then(() => settled.push('first'))
    await new Promise(setImmediate)
    const second = commit(at(1, 1)).then(() => settled.push('second'))
    await answered(0)
    await first
    expect(settled).to.deep.equal(['first'])
    await answered(1)
    await second
  })

  it('fail with their own request, and the next goes out all the same', async () => {
    const { requests, commit, answered } = openBroker()
    const first = commit(at(0, 1)).catch((error: Error) => error.message)
    await new Promise(setImmediate)
    const second = commit(at(1, 1))
    requests[0]?.answer.reject(new Error('rebalancing'))
    expect(await first).to.equal('rebalancing')
    await new Promise(setImmediate)
    await answered(1)
    await second
    expect(requests).to.have.length(2)
  })
})
