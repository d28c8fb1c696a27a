/** Gateways that read one log in memory, each in an order of its own, and clients that lose their streams and resume at any of them. */
import { expect } from 'chai'
import fc from 'fast-check'
import { nextTurn } from '#infra/runtime/turns.ts'
import type { FeedSide } from '#schemas/events/feed-advanced.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import type { EventStream } from '#services/feed/event-stream.ts'
import type { Subscription } from '#services/feed/feed-request.ts'
import type { FeedChange } from '#services/feed/feed-topics.ts'
import { changesFrames, identifiedFrame, openItemText, readyFrame } from '#services/feed/frames.ts'
import type { StartingSubscriber } from '#services/feed/gateway.ts'
import { openHub, wantsItem, wantsProvider } from '#services/feed/hub.ts'
import { firstUndelivered, type LogPosition, openEventIds, providerSide } from '#services/feed/log-position.ts'
import type { AssembledBatch } from '#services/feed/refresh-assembler.ts'
import { openPermits, prepareStart } from '#services/feed/subscribe.ts'
import { framesOf, loadWindow, openFeedWindow } from '#services/feed/window.ts'
import { batchesOf, expectEachOnce, type Log, logs, PARTITIONS, START, textOf } from '#test/fixtures/feed-logs.ts'
import { randomOf } from '#test/harness/seeded-random.ts'

/** The catalog lacks item 8. */
const itemOf = (item_id: number) =>
  item_id === 8 ? undefined : ({ item_id, market_hash_name: `Item ${item_id}`, phase: null } as CatalogItem)
const ITEMS = { itemOf, itemText: openItemText() }
const IDS = openEventIds('key', 'test', PARTITIONS)
const SIDES: Record<string, FeedSide> = { 'prices.changed': 'ask', 'bids.changed': 'bid', 'sales.recorded': 'sale' }
const READY = readyFrame({ providers: [], itemIdsCount: 0, namesCount: 0 })

/** A stream within a record is not cloned right by fast-check: a seed of one. */
const seeds = fc.nat()
function* choicesOf(seed: number): Generator<number, never, void> {
  for (const random = randomOf(seed); ; ) yield random.integer(0, PARTITIONS - 1)
}
const offsets = fc.array(fc.nat(8), { minLength: PARTITIONS, maxLength: PARTITIONS })

const gatewayPlans = fc.record({
  order: seeds,
  turns: seeds,
  /** It follows the log from here. */
  from: offsets,
  loads: fc.boolean(),
  pace: fc.constantFrom(1, 10, 50),
  windowBytes: fc.constantFrom(1_500, 3_000, 100_000),
})
const clientPlans = fc.record({
  begins: fc.oneof(fc.constantFrom('now' as const, 'state' as const), fc.record({ frames: fc.nat(8), order: seeds })),
  side: fc.constantFrom<FeedSide>('ask', 'ask', 'bid', 'sale'),
  providers: fc.option(fc.uniqueArray(fc.constantFrom('p', 'q', 'pushing'), { minLength: 1 }), { nil: undefined }),
  items: fc.option(fc.uniqueArray(fc.nat(8), { minLength: 1, maxLength: 4 }), { nil: undefined }),
  /** Of each stream but the last: how long it is waited for, and the frames after which it is cut. */
  streams: fc.array(fc.record({ wait: fc.nat(60), frames: fc.integer({ min: 1, max: 6 }) }), { maxLength: 4 }),
  turns: seeds,
  /** How long it takes to read what it was sent. */
  pace: fc.constantFrom(1, 20),
  state: offsets,
})
type GatewayPlan = typeof gatewayPlans extends fc.Arbitrary<infer T> ? T : never
type ClientPlan = typeof clientPlans extends fc.Arbitrary<infer T> ? T : never

/** Lets others have none, one or some turns, so many times. */
async function someTurns(turns: Iterator<number>, times = 1): Promise<void> {
  for (let time = 0; time < times; time++) {
    const choice = turns.next().value
    if (choice === 2) await nextTurn()
    else if (choice === 1) for (let count = turns.next().value; count >= 0; count--) await undefined
  }
}

const positionAt = (log: Log, at: readonly number[]): LogPosition => ({
  next: log.map(({ length }, partition) => Math.min(length, at[partition] ?? 0)),
  behind: new Map(),
})
const changesOf = (log: Log): { change: FeedChange; partition: number; offset: number }[] =>
  log.flat().flatMap(({ event, value, ...where }) => (event === 'RefreshMarked' ? [] : [{ ...where, change: value }]))
const changesBefore = (log: Log, position: LogPosition): FeedChange[] =>
  changesOf(log).flatMap(({ change, partition, offset }) =>
    offset < firstUndelivered(position, providerSide(change.side, change.provider), partition) ? [change] : [],
  )

/** What has happened, so that a run in which nothing did is noticed. */
const counts = { cuts: 0, logReads: 0, live: 0, evicted: 0 }

/** Follows the log as services/feed/gateway.ts does. */
function openGateway(log: Log, { from, loads, windowBytes, pace, ...seeds }: GatewayPlan) {
  const [order, turns] = [choicesOf(seeds.order), choicesOf(seeds.turns)]
  const hub = openHub<StartingSubscriber>(itemOf)
  const start = positionAt(log, from)
  const window = openFeedWindow(windowBytes, start)
  async function* read(from: LogPosition, to: LogPosition): AsyncGenerator<AssembledBatch, void, void> {
    counts.logReads += 1
    for (const batch of batchesOf(log, order, from, to)) {
      await someTurns(turns)
      yield batch
    }
  }
  const since = async () => ({ from: START.next, to: START.next })
  async function follow(): Promise<void> {
    for (const batch of batchesOf(log, order, start, undefined, window.advance)) {
      for (const { frame } of framesOf(batch, ITEMS)) {
        const first = window.frame(0)
        window.append(frame)
        if (first && window.isGone(0)) counts.evicted += 1
        for (const { bytes, to } of hub.deliver(frame)) {
          counts.live += 1
          for (const { stream } of to) stream.send(identifiedFrame(bytes, IDS.write(frame.after, frame.side)))
          await someTurns(turns)
        }
      }
      await someTurns(turns, pace)
    }
  }
  const loaded = loads && loadWindow(window, { log: { since, read }, ...ITEMS }, new AbortController().signal)
  return { hub, window, read, done: Promise.all([follow(), loaded]) }
}
type TestGateway = ReturnType<typeof openGateway>

/** Has what it received and the id of its last event; a state that is whole replaces all that it had. */
function openClient(log: Log, { begins, providers, items, ...plan }: ClientPlan) {
  const { side, streams, state } = plan
  const turns = choicesOf(plan.turns)
  const subscription: Subscription = {
    side,
    providers: providers && new Set(providers),
    itemIds: new Set(items),
    names: new Set(),
    isFiltered: items !== undefined,
  }
  const isWanted = (change: FeedChange) =>
    itemOf(change.item_id) !== undefined &&
    change.side === side &&
    wantsProvider(subscription, change.provider) &&
    wantsItem(subscription, change.item_id, itemOf)
  let received: string[] = []
  let id: string | undefined
  let isBegun = begins !== 'now'
  if (typeof begins === 'object') {
    let position = START
    const all = batchesOf(log, choicesOf(begins.order), START).flatMap(batch => framesOf(batch, ITEMS))
    for (const { frame, changes } of all.take(begins.frames)) {
      received.push(...changes.filter(isWanted).map(textOf))
      position = frame.after
    }
    id = IDS.write(position, side)
  }
  /** The state as of a position: all that led to it. */
  const pinState = async () => {
    const position = positionAt(log, state)
    const changes = changesBefore(log, position)
      .filter(isWanted)
      .sort((a, b) => a.seen_at - b.seen_at)
    async function* events(): AsyncGenerator<{ frame: Buffer; items: number }, void, void> {
      for (const { bytes, ends } of changesFrames(side, changes, ITEMS)) yield { frame: bytes, items: ends.length }
    }
    return { position, events }
  }
  async function listen({ hub, window, read, done }: TestGateway, frames: number): Promise<void> {
    const ending = new AbortController()
    const { signal } = ending
    let ofThisStream: string[] = []
    const receive = (frame: Buffer): void => {
      const [, own, event = '', data = ''] = /^(?:id: (.+)\n)?event: (.+)\ndata: (.+)\n\n$/.exec(frame.toString()) ?? []
      if (own !== undefined) id = own
      if (event === 'ready' && !isBegun) {
        received = changesBefore(log, IDS.read(own as string, side) as LogPosition)
          .filter(isWanted)
          .map(textOf)
        isBegun = true
      } else if (event === 'snapshot.end') {
        received = ofThisStream
        ofThisStream = []
      } else if (event in SIDES) {
        const { provider, seen_at, items } = JSON.parse(data)
        const about = { side: SIDES[event] as FeedSide, provider, seen_at: Date.parse(seen_at) }
        const texts = items.map(({ item_id }: FeedChange) => textOf({ ...about, item_id }))
        received.push(...texts)
        ofThisStream.push(...texts)
      } else expect(event).to.equal('ready')
    }
    let left = frames
    const stream = {
      waiting: () => Math.max(0, turns.next().value - 1),
      drained: () => someTurns(turns, plan.pace),
      send(frame: Buffer) {
        if (signal.aborted) return 'over'
        receive(frame)
        if (--left === 0) ending.abort()
        return 'queued'
      },
    } as unknown as EventStream
    const reader = { check: async () => 'kept' as const, read }
    const limits = { acquireStart: openPermits(1), acquireLogReader: openPermits(1) }
    const parts = { ...ITEMS, window, log: reader, pinState, ids: IDS, ...limits }
    const subscriber: StartingSubscriber = {
      ...subscription,
      stream,
      ready: READY,
      isResuming: true,
      signal,
      join: () => signal.aborted || hub.add(subscriber),
    }
    const isOver = new Promise(resolve => signal.addEventListener('abort', resolve, { once: true }))
    const options = { resume: true, snapshot: begins === 'state', conflate: false }
    const request = { subscription, options, providers: [], itemIdsCount: 0, namesCount: 0 }
    const start = await prepareStart(request, id, parts)
    await start.begin(subscriber).catch(error => {
      if (!signal.aborted) throw error
    })
    await Promise.race([done, isOver])
    hub.remove(subscriber)
    if (signal.aborted) counts.cuts += 1
    ending.abort()
  }
  return {
    async resumeAt(gateways: readonly TestGateway[]): Promise<void> {
      for (const { wait, frames } of [...streams, { wait: 0, frames: Number.POSITIVE_INFINITY }]) {
        await someTurns(turns, wait)
        await listen(gateways[turns.next().value % gateways.length] as TestGateway, frames)
      }
    },
    expectWhole: () => expectEachOnce(log, received, isWanted),
  }
}

describe('a stream that begins', () => {
  it('has each change once and in its order, from wherever, whenever and however often it begins', async () => {
    const gateways = fc.array(gatewayPlans, { minLength: 1, maxLength: 2 })
    const clients = fc.array(clientPlans, { minLength: 1, maxLength: 3 })
    await fc.assert(
      fc.asyncProperty(logs, gateways, clients, async (log, gatewayPlans, clientPlans) => {
        const opened = gatewayPlans.map(plan => openGateway(log, plan))
        const all = clientPlans.map(plan => openClient(log, plan))
        await Promise.all([...opened.map(({ done }) => done), ...all.map(client => client.resumeAt(opened))])
        for (const client of all) client.expectWhole()
      }),
      { numRuns: 600 },
    )
    for (const [what, count] of Object.entries(counts)) expect(count, what).to.be.above(100)
  })
})
