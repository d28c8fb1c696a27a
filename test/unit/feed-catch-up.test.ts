/** The log and the live stream are in memory; both on a real log are the matter of test/fault/feed.test.ts. */
import { expect } from 'chai'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { type CatchUpOptions, openCatchUps } from '#services/feed/catch-up.ts'
import type { LogPosition } from '#services/feed/log-position.ts'
import { type AssembledBatch, openRefreshAssembler } from '#services/feed/refresh-assembler.ts'
import { eventually } from '#test/harness/eventually.ts'
import { changed } from '#test/harness/published-records.ts'

const PLENTY = 2 ** 20

const itemOf = (item_id: number) => ({ item_id, market_hash_name: `item ${item_id}`, phase: null }) as CatalogItem
const at = (offset: number): LogPosition => ({ next: [offset], behind: new Map() })

/** A log of one partition whose record at an offset is a pushed change of the item of that number. */
function openLog(length: number) {
  const readings: { from: number; to: number }[] = []
  let first = 0
  /** Where the log begins from the next record on that is read. */
  let movesTo: number | undefined
  /** Resolves whenever a reading may go on. */
  let gate: Promise<void> = Promise.resolve()
  async function* read(
    from: LogPosition,
    to: LogPosition,
    signal: AbortSignal,
  ): AsyncGenerator<AssembledBatch, void, void> {
    const [begin, end] = [from.next[0] as number, to.next[0] as number]
    if (begin < end) readings.push({ from: begin, to: end })
    const assembler = openRefreshAssembler({ partitions: 1, waitMs: 0, changesMax: 10 }, from, to)
    for (let offset = begin; offset < end; offset++) {
      await gate
      signal.throwIfAborted()
      if (movesTo !== undefined) {
        first = movesTo
        movesTo = undefined
        throw Object.assign(new Error('moved on'), { type: 'OFFSET_OUT_OF_RANGE' })
      }
      const value = changed({ item_id: offset, refresh_id: null })
      yield* assembler.take({ partition: 0, offset, event: 'BookChanged', value }, 0)
      yield* assembler.release(0)
    }
  }
  const options: CatchUpOptions = {
    live: { between: async work => work(at(length)) },
    history: {
      judge: async position => ((position.next[0] as number) < first ? 'expired' : 'kept'),
      forget: () => undefined,
      read,
    },
    itemOf,
    metrics: { readings: { inc: () => undefined } } as unknown as CatchUpOptions['metrics'],
  }
  return {
    options,
    readings,
    moveOn(offset: number) {
      movesTo = offset
    },
    hold(): () => void {
      const { promise, resolve } = Promise.withResolvers<void>()
      gate = promise
      return resolve
    },
  }
}

/** A client that reads or does not. */
function openClient(from: number, catchUps: ReturnType<typeof openCatchUps>) {
  const received: number[] = []
  const ending = new AbortController()
  const drained = Promise.withResolvers<boolean>()
  let isReading = true
  let state = 'waits'
  const subscription = {
    side: 'ask' as const,
    providers: undefined,
    itemIds: new Set<number>(),
    names: new Set<string>(),
  }
  const stream = {
    send(frame: Buffer) {
      received.push(...[...frame.toString().matchAll(/"item_id":(\d+)/g)].map(([, id]) => Number(id)))
      return 'queued' as const
    },
    waiting: () => (isReading ? 0 : PLENTY),
    drained: () => drained.promise,
  }
  const ways = { join: () => undefined, goLive: () => undefined, signal: ending.signal, scope: undefined }
  const done = catchUps.bring({ ...ways, stream, subscription: { ...subscription, isFiltered: false } }, at(from))
  done.then(
    how => {
      state = how
    },
    () => {
      state = 'refused'
    },
  )
  return {
    received,
    ending,
    state: () => state,
    stall() {
      isReading = false
    },
    readOn() {
      isReading = true
      drained.resolve(true)
    },
  }
}

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, each) => from + each)

describe('the catch-up of clients that resume', () => {
  it('serves all clients that come together by one reading, each from its own position', async () => {
    const log = openLog(40)
    const catchUps = openCatchUps(log.options)
    const clients = range(0, 30).map(from => openClient(from, catchUps))
    await eventually(() => clients.every(({ state }) => state() === 'live'), 'all to be live')
    for (const [from, { received }] of clients.entries()) expect(received).to.deep.equal(range(from, 40))
    expect(log.readings).to.deep.equal([{ from: 0, to: 40 }])
    catchUps.close()
  })

  it('takes clients along that come while a reading is still before their position', async () => {
    const log = openLog(200)
    const catchUps = openCatchUps(log.options)
    const goOn = log.hold()
    const first = openClient(0, catchUps)
    await eventually(() => log.readings.length === 1, 'a reading')
    // Four readings are under way, so that others wait for one that ends, or takes them along.
    const others: ReturnType<typeof openClient>[] = []
    for (let count = 2; count <= 4; count++) {
      others.push(openClient(0, catchUps))
      await eventually(() => log.readings.length === count, 'one more reading')
    }
    const late = openClient(150, catchUps)
    goOn()
    await eventually(() => [first, late, ...others].every(({ state }) => state() === 'live'), 'all to be live')
    expect(late.received).to.deep.equal(range(150, 200))
    expect(log.readings, 'none of its own').to.have.length(4)
    catchUps.close()
  })

  it('lets no client wait for one that reads nothing, which gets the rest when it reads', async () => {
    const log = openLog(50)
    const catchUps = openCatchUps(log.options)
    const clients = range(0, 5).map(() => openClient(10, catchUps))
    const [slow, ...others] = clients as [(typeof clients)[0], ...typeof clients]
    slow.stall()
    await eventually(() => others.every(({ state }) => state() === 'live'), 'the others to be live')
    expect(slow.state()).to.equal('waits')
    slow.readOn()
    await eventually(() => slow.state() === 'live', 'the slow one to be live')
    for (const { received } of clients) expect(received).to.deep.equal(range(10, 50))
    catchUps.close()
  })

  it('says that a position has expired where the log moves on before it is read', async () => {
    const log = openLog(50)
    const catchUps = openCatchUps(log.options)
    log.moveOn(10)
    const [gone, kept] = [openClient(5, catchUps), openClient(20, catchUps)]
    await eventually(() => gone.state() !== 'waits' && kept.state() !== 'waits', 'both')
    expect([gone.state(), kept.state()]).to.deep.equal(['expired', 'live'])
    expect(kept.received).to.deep.equal(range(20, 50))
    catchUps.close()
  })

  it('forgets a client that is gone, and ends a reading that has no client left', async () => {
    const log = openLog(50)
    const catchUps = openCatchUps(log.options)
    const goOn = log.hold()
    const [left, stays] = [openClient(0, catchUps), openClient(0, catchUps)]
    await eventually(() => log.readings.length === 1, 'a reading')
    left.ending.abort()
    await eventually(() => left.state() === 'refused', 'the end of a wait')
    goOn()
    await eventually(() => stays.state() === 'live', 'the other one to be live')
    expect([left.received, stays.received]).to.deep.equal([[], range(0, 50)])
    catchUps.close()
  })
})
