import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect } from 'chai'
import type { Database } from '#infra/postgres/pool.ts'
import { AT_ONCE, openLongWork } from '#services/api/work-limits.ts'

describe('long work', () => {
  /** Lets everything go on that waits for nothing else. */
  const settled = async () => {
    for (let turn = 0; turn < 20; turn++) await nextTurn()
  }

  it('runs a few at a time, and of an account one', async () => {
    const work = openLongWork({} as Database)
    const running = new Map<string, PromiseWithResolvers<void>>()
    const add = (account: string, name: string) =>
      work.add(account, () => {
        const ended = Promise.withResolvers<void>()
        running.set(name, ended)
        return ended.promise.finally(() => running.delete(name))
      })
    const all = ['a1', 'a2', 'b1', 'c1'].map(name => add(name[0] as string, name))
    await settled()
    expect([...running.keys()])
      .to.deep.equal(['a1', 'b1'])
      .and.have.length(AT_ONCE)
    running.get('b1')?.resolve()
    await settled()
    expect([...running.keys()]).to.deep.equal(['a1', 'c1'])
    running.get('a1')?.resolve()
    await settled()
    expect([...running.keys()]).to.deep.equal(['c1', 'a2'])
    for (const { resolve } of running.values()) resolve()
    await Promise.all(all)
  })

  it('refuses what would wait behind too much of its account', async () => {
    const work = openLongWork({} as Database)
    const ended = Promise.withResolvers<void>()
    const taken = Array.from({ length: 8 }, () => work.add('a', () => ended.promise))
    const refused = await work.add('a', async () => undefined).catch(error => error.code)
    expect(refused).to.equal('SERVICE_UNAVAILABLE')
    ended.resolve()
    await Promise.all(taken)
  })
})
