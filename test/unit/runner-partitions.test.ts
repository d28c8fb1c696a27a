import { expect } from 'chai'
import { openBackoff } from '#infra/kafka/refusal.ts'
import { openLog } from '#infra/runtime/log.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import { openPartitions, whileTicking } from '#streams/runner/partitions.ts'
import { sourceName } from '#streams/runner/positions.ts'
import { eventually } from '#test/harness/eventually.ts'

interface Opened {
  name: string
  close(): Promise<void>
}

/** Partitions that record what was opened and closed; `gate` holds openings back. */
function watchedPartitions(gate: (name: string) => Promise<void> = async () => undefined) {
  const opened: string[] = []
  const closed: string[] = []
  const partitions = openPartitions<Opened>(
    async source => {
      const name = `${sourceName(source)}#${opened.length}`
      opened.push(name)
      await gate(name)
      return { name, close: async () => void closed.push(name) }
    },
    openLog({ level: 'silent', name: 'test' }),
  )
  return { partitions, opened, closed }
}

const noTick = async () => undefined
const FIRST = { topic: 'quotes', partition: 0 } as const
const resumeNowhere = async () => undefined

describe('partitions of a member', () => {
  it('are opened for every assigned partition at once, before any record comes', async () => {
    const { partitions, opened } = watchedPartitions()
    expect(partitions.state()).to.equal('joining its group')
    partitions.replace([FIRST, { topic: 'bids', partition: 3 }], resumeNowhere)
    expect(opened).to.deep.equal(['quotes-0#0', 'bids-3#1'])
    expect(partitions.state()).to.equal('opening 2 of 2 partitions')
    await eventually(() => partitions.state() === undefined)
  })

  it('are dropped with their generation, and those that were still opening are closed once open', async () => {
    const held = Promise.withResolvers<void>()
    const { partitions, closed } = watchedPartitions(name => (name.endsWith('#0') ? held.promise : Promise.resolve()))
    partitions.replace([FIRST], resumeNowhere)
    partitions.replace([FIRST], resumeNowhere)
    expect((await partitions.get(FIRST, noTick)).name).to.equal('quotes-0#1')
    held.resolve()
    await eventually(() => closed.length === 1)
    expect(closed).to.deep.equal(['quotes-0#0'])
    expect(partitions.peek(FIRST)?.name).to.equal('quotes-0#1')
  })

  it('are all closed when closing is done, those of an earlier generation that were still opening too', async () => {
    const held = Promise.withResolvers<void>()
    const { partitions, closed } = watchedPartitions(name => (name.endsWith('#0') ? held.promise : Promise.resolve()))
    partitions.replace([FIRST], resumeNowhere)
    partitions.replace([FIRST], resumeNowhere)
    await partitions.get(FIRST, noTick)
    const closing = partitions.close()
    await eventually(() => closed.length === 1)
    held.resolve()
    await closing
    expect(closed).to.deep.equal(['quotes-0#1', 'quotes-0#0'])
  })

  it('are reopened at once on request, unless another one is current by now', async () => {
    const { partitions, opened } = watchedPartitions()
    partitions.replace([FIRST], resumeNowhere)
    const first = await partitions.get(FIRST, noTick)
    partitions.reopen(first)
    const second = await partitions.get(FIRST, noTick)
    partitions.reopen(first)
    expect(await partitions.get(FIRST, noTick)).to.equal(second)
    expect(opened).to.deep.equal(['quotes-0#0', 'quotes-0#1'])
    expect(partitions.all()).to.deep.equal([{ topic: 'quotes', partition: 0, opened: second }])
  })

  it('hand the failure of an opening to who waits for it, and open again after a drop', async () => {
    let failures = 1
    const { partitions } = watchedPartitions(async () => {
      if (failures-- > 0) throw new Error('away')
    })
    partitions.replace([FIRST], resumeNowhere)
    const refused = await partitions.get(FIRST, noTick).catch(error => error)
    expect(refused).to.be.instanceOf(Error).with.property('message', 'away')
    await partitions.drop(FIRST)
    expect((await partitions.get(FIRST, noTick)).name).to.equal('quotes-0#1')
  })
})

describe('runner waits', () => {
  it('send the group a heartbeat every second', async () => {
    const work = Promise.withResolvers<string>()
    let ticks = 0
    const waiting = whileTicking(work.promise, async () => {
      if (++ticks === 2) work.resolve('done')
    })
    expect(await waiting).to.equal('done')
    expect(ticks).to.equal(2)
  })

  it('end at once when the group refuses the heartbeat', async () => {
    const refusal = await whileTicking(new Promise(() => undefined), async () => {
      throw new Error('rebalancing')
    }).catch(error => error.message)
    expect(refusal).to.equal('rebalancing')
  })
})

describe('backoff', () => {
  let now = 0
  const fail = (backoff: ReturnType<typeof openBackoff>) => backoff.failed(new Error('away'))

  it('pauses longer with every failure, up to five seconds, and starts over after a success', () => {
    const backoff = openBackoff(() => now)
    const pauses = Array.from({ length: 7 }, () => fail(backoff))
    expect(pauses).to.deep.equal([200, 400, 800, 1_600, 3_200, 5_000, 5_000])
    backoff.succeeded()
    now += 11 * MINUTE_MS
    expect(fail(backoff)).to.equal(200)
  })

  it('hands the error on after ten minutes of nothing but failures', () => {
    const backoff = openBackoff(() => now)
    fail(backoff)
    now += 10 * MINUTE_MS
    fail(backoff)
    now += 1
    expect(() => fail(backoff)).to.throw('away')
  })
})
