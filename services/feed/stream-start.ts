/**
 * How a stream begins that asks for more than the specification: with the current state, or where one left off.
 *
 * State or log first, then live, without gap or repeat: what lies between the beginning and the live stream's position
 * is told from the log, in rounds while it is much; then the subscriber joins between two live batches, which are
 * held back for it while the last round is told up to exactly that point. Invariant: the subscriber has been
 * told a position exactly whenever an event with its id has gone out.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import type { ChangeReader } from './change-reader.ts'
import type { EventStream } from './event-stream.ts'
import type { FeedRequest } from './feed-query.ts'
import { identifiedFrame, resyncFrame, snapshotEndFrame } from './frames.ts'
import { type ChangeBatch, openHub, type Subscription } from './hub.ts'
import type { LiveState, PinnedState } from './live-state.ts'
import type { LogHistory } from './log-history.ts'
import { covers, decodePosition, distance, encodePosition, type LogPosition, ofSide } from './log-position.ts'
import type { ToldBatch } from './refresh-teller.ts'

/** A subscriber that is not live yet. */
export interface Beginner {
  stream: EventStream
  subscription: Subscription
  /** Adds it to the live stream, whose events are held back for it. */
  join(): void
  /** Lets go what is held back; live from now on. */
  open(): void
  /** Aborts when its stream is over. */
  signal: AbortSignal
}

/** Brings a subscriber to the live stream. */
export type Begin = (beginner: Beginner) => Promise<void>

/** What beginnings are made of. */
export interface StreamStartOptions {
  live: Pick<ChangeReader, 'between'>
  history: LogHistory
  state: LiveState
  itemOf(itemId: number): CatalogItem | undefined
  /** Of the ids of a feed. */
  scopeOf(subscription: Subscription): string
}

/** What a stream begins with. */
interface Start {
  resync?: 'expired' | 'unknown'
  state?: PinnedState
  /** What its client has. */
  position?: LogPosition
}

/** Records that a subscriber may lack when it joins. */
const NEAR = 5_000
const ROUNDS_MAX = 100
const COVER_LIMIT_MS = 10_000
const COVER_CHECK_MS = 20

/** Makes ready how a stream begins; undefined for one that just listens. Rejects when the state is not there. */
export async function prepareStart(
  { subscription, options: wanted }: FeedRequest,
  providers: readonly string[],
  lastEventId: string | undefined,
  options: StreamStartOptions,
): Promise<Begin | undefined> {
  if (!wanted.resume && !wanted.snapshot) return undefined
  const start: Start = {}
  if (wanted.resume && lastEventId !== undefined) {
    const position = decodePosition(lastEventId, options.scopeOf(subscription), ITEM_PARTITIONS)
    const judged = position ? await options.history.judge(position) : 'unknown'
    if (position && judged === 'kept') start.position = position
    else start.resync = judged === 'expired' ? 'expired' : 'unknown'
  }
  if (!start.position && wanted.snapshot) start.state = await options.state.pin(subscription, providers)
  return beginner => begin(beginner, start, wanted.resume, options)
}

async function begin(beginner: Beginner, start: Start, isResumable: boolean, options: StreamStartOptions) {
  const { stream, subscription } = beginner
  const identified = (frame: Buffer, position: LogPosition): Buffer =>
    isResumable
      ? identifiedFrame(frame, encodePosition(ofSide(position, subscription.side), options.scopeOf(subscription)))
      : frame
  const { position = start.state?.position } = start
  if (start.resync && position) stream.send(resyncFrame(start.resync))
  if (start.resync && !position) {
    // With the id of the live position: whoever breaks off right here is not told to begin anew again.
    const now = await options.live.between(told => joinAt(beginner, told))
    stream.send(identified(resyncFrame(start.resync), now))
    return beginner.open()
  }
  if (!position) {
    await options.live.between(told => joinAt(beginner, told))
    return beginner.open()
  }
  if (start.state) {
    const items = await sendState(beginner, start.state)
    stream.send(identified(snapshotEndFrame(items), position))
  }
  await catchUp(beginner, position, identified, options)
}

function joinAt(beginner: Beginner, told: LogPosition): LogPosition {
  beginner.join()
  return told
}

async function sendState({ stream, signal }: Beginner, state: PinnedState): Promise<number> {
  let sent = 0
  for await (const { frame, items } of state.events()) {
    stream.send(frame)
    sent += items
    await stream.drained()
    signal.throwIfAborted()
  }
  return sent
}

type Identified = (frame: Buffer, position: LogPosition) => Buffer

/** Tells what lies between a position and the live stream, and joins it. */
async function catchUp(beginner: Beginner, from: LogPosition, identified: Identified, options: StreamStartOptions) {
  const { live, history } = options
  const { side } = beginner.subscription
  const now = () => live.between(told => ofSide(told, side))
  let at = from
  const limit = performance.now() + COVER_LIMIT_MS
  // Whoever left off at another gateway may be a moment ahead of this one.
  while (!covers(await now(), at)) {
    if (performance.now() > limit) throw new Error('the live stream does not reach the place to resume from')
    await delay(COVER_CHECK_MS, undefined, { signal: beginner.signal })
  }
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const to = await now()
    if (distance(at, to) <= NEAR) break
    await tell(beginner, history.tell(at, to, beginner.signal), identified, options)
    at = to
  }
  const joined = await live.between(told => joinAt(beginner, ofSide(told, side)))
  if (distance(at, joined) > 0) await tell(beginner, history.tell(at, joined, beginner.signal), identified, options)
  beginner.open()
}

async function tell(
  { stream, subscription, signal }: Beginner,
  batches: AsyncIterable<ToldBatch>,
  identified: Identified,
  { itemOf }: StreamStartOptions,
): Promise<void> {
  const hub = openHub<Subscription>(itemOf)
  hub.add(subscription)
  for await (const batch of batches) {
    for (const { frame, through } of hub.deliver(batch satisfies ChangeBatch)) {
      stream.send(identified(frame, batch.positionAfter(through)))
      await stream.drained()
      signal.throwIfAborted()
    }
  }
}
