/**
 * Slots of bulk streams in a real Redis: one at a time and so many in a rolling window, exactly, over all processes.
 */
import { expect } from 'chai'
import { closeRedis, openRedis, type Redis } from '#infra/redis/redis.ts'
import { openStreamSlots, type StreamSlot, type StreamSlots } from '#infra/redis/stream-slots.ts'
import { eventually, within } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

describe('slots of streams', () => {
  const platform = useServers({ setUp: false })
  const connections: Redis[] = []
  let subjects = 0
  const subject = (): string => `ask:key-${subjects++}`

  /** Slots as another process would open them. */
  const openOn = (i: number, options: { windowMs?: number; leaseMs?: number } = {}): StreamSlots =>
    openStreamSlots(connections[i] as Redis, { prefix: platform.namespace, ...options })

  before(async () => {
    for (let i = 0; i < 4; i++) {
      connections.push(await openRedis(platform.config, { name: `test-${i}`, log: platform.log }))
    }
  })
  after(() => Promise.all(connections.map(closeRedis)))

  const started = async (slots: StreamSlots, name: string, limit = 50): Promise<StreamSlot> => {
    const start = await slots.start(name, limit)
    if (start.kind !== 'started') throw new Error(start.kind)
    return start.slot
  }

  it('are taken by one of many that ask at once', async () => {
    const name = subject()
    const asked = await Promise.all(
      Array.from({ length: 64 }, (_, i) => openOn(i % connections.length).start(name, 300)),
    )
    const kinds = Map.groupBy(asked, ({ kind }) => kind)
    expect(kinds.get('started')).to.have.length(1)
    expect(kinds.get('busy')).to.have.length(63)
    for (const { quota } of asked) expect(quota.remaining).to.equal(299)
    for (const start of asked) if (start.kind === 'started') await start.slot.release()
  })

  it('are given out as often as the limit says and not once less, to many that ask without pause', async () => {
    const name = subject()
    const limit = 37
    let admitted = 0
    await Promise.all(
      Array.from({ length: 16 }, async (_, i) => {
        const slots = openOn(i % connections.length)
        for (;;) {
          const start = await slots.start(name, limit)
          if (start.kind === 'spent') return
          if (start.kind === 'busy') continue
          admitted += 1
          await start.slot.release()
        }
      }),
    )
    expect(admitted).to.equal(limit)
    const quota = await openOn(0).read(name, limit)
    expect(quota.remaining).to.equal(0)
    expect(quota.retryAfterSeconds).to.be.within(86_300, 86_400)
  })

  it('come back one by one as starts leave the window', async () => {
    const name = subject()
    const windowMs = 600
    const slots = openOn(0, { windowMs })
    const asked: number[] = []
    const at: number[] = []
    // Six starts by a limit of two: each but the first two waits for the one two before it to leave.
    while (at.length < 6) {
      const start = await eventually(async () => {
        const askedAt = performance.now()
        const tried = await slots.start(name, 2)
        return tried.kind === 'started' ? { ...tried, askedAt } : undefined
      }, 'a start to leave the window')
      asked.push(start.askedAt)
      at.push(performance.now())
      await start.slot.release()
    }
    // Starts are counted in whole milliseconds of another clock.
    for (let i = 2; i < at.length; i++) expect((at[i] ?? 0) - (asked[i - 2] ?? 0)).to.be.greaterThan(windowMs - 20)
  })

  it('are given back when nothing was streamed', async () => {
    const name = subject()
    const slots = openOn(1)
    await (await started(slots, name)).undo()
    expect((await slots.read(name, 50)).remaining).to.equal(50)
    await (await started(slots, name)).release()
    expect((await slots.read(name, 50)).remaining).to.equal(49)
  })

  it('stay held for as long as their stream runs', async () => {
    const name = subject()
    const leaseMs = 600
    const slot = await started(openOn(2, { leaseMs }), name)
    const until = performance.now() + 4 * leaseMs
    while (performance.now() < until) expect((await openOn(3).start(name, 50)).kind).to.equal('busy')
    expect(slot.lost.aborted).to.equal(false)
    await slot.release()
    await (await started(openOn(3), name)).release()
  })

  it('of a process that died become free when their lease ends', async () => {
    const name = subject()
    // Its connection ends, so nothing is renewed any more.
    const dying = await openRedis(platform.config, { name: 'dying', log: platform.log })
    const slot = await started(openStreamSlots(dying, { prefix: platform.namespace, leaseMs: 2_000 }), name)
    await closeRedis(dying)
    expect((await openOn(0).start(name, 50)).kind).to.equal('busy')
    const next = await eventually(async () => {
      const start = await openOn(0).start(name, 50)
      return start.kind === 'started' ? start : undefined
    }, 'the lease to end')
    await next.slot.release()
    // And the one that could not renew knows.
    const lost = new Promise(resolve => slot.lost.addEventListener('abort', resolve))
    if (!slot.lost.aborted) await within(lost, 'the loss to be noticed')
    await slot.release()
  })

  it('that another has taken are lost, and freeing them frees nothing of the other', async () => {
    const name = subject()
    const slot = await started(openOn(0, { leaseMs: 200 }), name)
    const lease = `${platform.namespace}{stream:${name}}:lease`
    await connections[1]?.set(lease, 'another', 'PX', 60_000)
    await eventually(() => slot.lost.aborted, 'the loss to be noticed')
    await slot.release()
    expect(await connections[1]?.get(lease)).to.equal('another')
  })

  it('are refused when Redis cannot be asked', async () => {
    const lost = await openRedis(platform.config, { name: 'lost', log: platform.log })
    const slots = openStreamSlots(lost, { prefix: platform.namespace })
    lost.disconnect()
    expect(await slots.start(subject(), 50).catch(error => error)).to.be.instanceOf(Error)
    // It would connect again by itself.
    await closeRedis(lost)
  })
})
