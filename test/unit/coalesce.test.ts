/** The work is a list of calls that the test answers. */
import { expect } from 'chai'
import { cached, coalesce } from '#infra/runtime/async/coalesce.ts'
import { openSerialQueues } from '#infra/runtime/async/serial-queues.ts'

const nextTurn = () => new Promise(setImmediate)

function openWork() {
  const calls: { requests: readonly number[]; answer: PromiseWithResolvers<readonly string[]> }[] = []
  const ask = coalesce((requests: readonly number[]) => {
    const answer = Promise.withResolvers<readonly string[]>()
    calls.push({ requests, answer })
    return answer.promise
  })
  const answer = (call: number) => calls[call]?.answer.resolve(calls[call].requests.map(request => `${request}!`))
  return { ask, calls, answer }
}

describe('coalescing', () => {
  it('has one call running and one waiting, which all that ask meanwhile share', async () => {
    const { ask, calls, answer } = openWork()
    const first = ask(1)
    await nextTurn()
    const others = [ask(2), ask(3)]
    await nextTurn()
    others.push(ask(4))
    await nextTurn()
    expect(calls.map(({ requests }) => requests)).to.deep.equal([[1]])
    answer(0)
    expect(await first).to.equal('1!')
    await nextTurn()
    await nextTurn()
    answer(1)
    expect(await Promise.all(others)).to.deep.equal(['2!', '3!', '4!'])
    expect(calls.map(({ requests }) => requests)).to.deep.equal([[1], [2, 3, 4]])
  })

  it('begins a call when gathering ends, with all that asked until then', async () => {
    const gathered = Promise.withResolvers<void>()
    const calls: (readonly number[])[] = []
    const ask = coalesce(
      async (requests: readonly number[]) => {
        calls.push(requests)
        return requests
      },
      () => gathered.promise,
    )
    const first = ask(1)
    await nextTurn()
    await nextTurn()
    const second = ask(2)
    expect(calls).to.deep.equal([])
    gathered.resolve()
    expect(await Promise.all([first, second])).to.deep.equal([1, 2])
    expect(calls).to.deep.equal([[1, 2]])
  })

  it('fails those that asked for the call that failed, and carries the next one out all the same', async () => {
    const { ask, calls, answer } = openWork()
    const first = ask(1).catch((error: Error) => error.message)
    await nextTurn()
    const second = ask(2)
    calls[0]?.answer.reject(new Error('rebalancing'))
    expect(await first).to.equal('rebalancing')
    await nextTurn()
    await nextTurn()
    answer(1)
    expect(await second).to.equal('2!')
  })
})

describe('a cached answer', () => {
  it('is asked for once while it is on its way and kept, and again after a failure or when it is forgotten', async () => {
    let asked = 0
    const { get, forget } = cached(async () => {
      asked += 1
      if (asked === 1) throw new Error('away')
      return asked
    }, Number.POSITIVE_INFINITY)
    expect(await get().catch((error: Error) => error.message)).to.equal('away')
    expect(await Promise.all([get(), get()])).to.deep.equal([2, 2])
    expect(await get()).to.equal(2)
    forget()
    expect(await get()).to.equal(3)
  })
})

describe('serial queues', () => {
  it('run the work of a key in its order and refuse what is too much of it, and nothing of another key', async () => {
    const queues = openSerialQueues(2, () => new Error('too much'))
    const held = Promise.withResolvers<void>()
    const seen: string[] = []
    const first = queues.add('a', () => held.promise.then(() => seen.push('first')))
    const second = queues.add('a', async () => seen.push('second'))
    expect(await queues.add('a', async () => undefined).catch((error: Error) => error.message)).to.equal('too much')
    await queues.add('b', async () => seen.push('other'))
    held.resolve()
    await Promise.all([first, second])
    expect(seen).to.deep.equal(['other', 'first', 'second'])
  })
})
