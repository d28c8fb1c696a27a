/** The errors are those that the client makes of a broker's answers. */
import { expect } from 'chai'
import { loadInternal } from '#infra/kafka/client/internals.ts'
import { groupOffsets } from '#infra/kafka/lag.ts'

const { createErrorFromCode } = loadInternal('protocol/error') as { createErrorFromCode(code: number): Error }
const [NOT_COORDINATOR, COORDINATOR_LOADING, GROUP_AUTHORIZATION_FAILED] = [16, 14, 30]

function askedOf(errors: readonly number[]) {
  let asked = 0
  return {
    asked: () => asked,
    async fetchOffsets() {
      const code = errors[asked++]
      if (code !== undefined) throw createErrorFromCode(code)
      const partitions = [
        { partition: 0, offset: '7', metadata: null },
        { partition: 1, offset: '-1', metadata: null },
      ]
      return [{ topic: 'quotes', partitions }]
    },
  }
}

describe('positions of a group', () => {
  it('are asked for again while the coordinator is changing', async () => {
    const admin = askedOf([NOT_COORDINATOR, COORDINATOR_LOADING, NOT_COORDINATOR])
    expect([...(await groupOffsets(admin, 'book', 'quotes'))]).to.deep.equal([[0, { next: 7, note: '' }]])
    expect(admin.asked()).to.equal(4)
  })

  it('are refused at once where asking again does not help', async () => {
    const admin = askedOf([GROUP_AUTHORIZATION_FAILED])
    const refused = await groupOffsets(admin, 'book', 'quotes').catch(error => error)
    expect(refused).to.have.property('type', 'GROUP_AUTHORIZATION_FAILED')
    expect(admin.asked()).to.equal(1)
  })

  it('know nothing of a topic that the answer does not name', async () => {
    expect((await groupOffsets(askedOf([]), 'book', 'others')).size).to.equal(0)
  })
})
