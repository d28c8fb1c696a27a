/**
 * GET /feed/replay/prices: recorded changes in the feed's own events, at the speed that is asked for.
 *
 * `from` and `to` are event time (`seen_at`). A change is recorded after it was seen, or little before where its provider's
 * clock is ahead, so the log is read from a little before `from` on; it may be recorded long after (a backfill), so the log is
 * read to its end as of the request. Order: of recording. The same range of the same log is replayed alike each time; no more
 * than one fetch is read ahead of the client, and a stream that waits for its time is kept open by pings. States: seated (reads)
 * -> waiting (for its time, its client or a seat, with the frames of one batch in memory) -> seated again, at the position behind that
 * batch. The refresh of a whole provider is 12 MB, and 3 as frames, or what a filter leaves of them.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { HttpError } from '#infra/http/http-error.ts'
import { nextTurn } from '#infra/runtime/turns.ts'
import type { ReplayQuery } from '#schemas/api/feed-query.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { CLOCK_SLACK_MS } from '#schemas/values/event-time.ts'
import { parseInstant } from '#schemas/values/instant.ts'
import { type ItemText, replayEndFrame } from './frames.ts'
import { type ChangeBatch, type Hub, openHub, type Subscription } from './hub.ts'
import type { LogHistory } from './log-history.ts'
import type { LogPosition } from './log-position.ts'
import type { AssembledBatch } from './refresh-assembler.ts'
import type { ReplaySeat, ReplaySeats } from './replay-seats.ts'
import type { Begin, Beginner } from './stream-start.ts'

/** What to replay. */
interface ReplayRange {
  /** The first moment. */
  from: number
  /** The moment after the last. */
  to: number
  /** Times the pace at which it was seen; 0: as fast as the client reads. */
  speed: number
}

const WAIT_MAX_MS = 60_000
/** A replay that has to wait for longer reads again afterwards, which costs as much as a few fetches. */
const SEATED_WAIT_MS = 250

/** The range that a query names; `now` ends one that names no end. */
export function replayRangeOf({ from, to, speed = '1' }: ReplayQuery, now: number): ReplayRange {
  const range = {
    from: parseInstant(from) as number,
    to: to === undefined ? now : (parseInstant(to) as number),
    speed: Number.parseFloat(speed),
  }
  if (range.to >= range.from) return range
  const msg = '`to` should not be before `from`'
  throw new HttpError('VALIDATION_ERROR', [
    { type: 'value_error', loc: ['query', 'to'], msg, input: to ?? null, ctx: {} },
  ])
}

/** What replays need. */
export interface ReplayNeeds {
  history: Pick<LogHistory, 'since' | 'read'>
  seats: ReplaySeats
  itemOf(itemId: number): CatalogItem | undefined
  /** Shared by all that make frames of the same catalog; its own when left out. */
  itemText?: ItemText
}

/** Makes the stream that replays a range; `release` frees what the replay holds before its client can ask for another. */
export function replayOf(range: ReplayRange, needs: ReplayNeeds, release: () => void): Begin {
  return async beginner => {
    const { stream, ready, subscription, signal } = beginner
    stream.send(ready)
    const hub = openHub<Subscription>(needs.itemOf, needs.itemText)
    hub.add(subscription)
    const bounds = await needs.history.since(Math.max(0, range.from - CLOCK_SLACK_MS))
    const replay: Replay = { range, beginner, hub, pace: openPace(range.speed), items: 0 }
    for (let from: LogPosition | undefined = bounds.from; from; ) {
      const seat = await needs.seats.take(signal)
      const left = await readSeated(replay, seat, needs.history.read(from, bounds.to, signal)).finally(seat.release)
      await left?.sent
      from = left?.position
    }
    release()
    stream.send(replayEndFrame(replay.items))
    stream.end('closed: the replay is complete')
  }
}

/** A replay that is under way. */
interface Replay {
  range: ReplayRange
  beginner: Beginner
  hub: Hub<Subscription>
  pace: ReturnType<typeof openPace>
  /** Delivered so far. */
  items: number
}

/** Where a replay has left its seat, and the batch that it delivers meanwhile. */
interface LeftSeat {
  position: LogPosition
  sent: Promise<void>
}

/** Delivers batches until one has to wait or the seat is another's; undefined when all are delivered. */
async function readSeated(
  replay: Replay,
  seat: ReplaySeat,
  batches: AsyncIterable<AssembledBatch>,
): Promise<LeftSeat | undefined> {
  const { range, beginner, pace } = replay
  for await (const batch of batches) {
    if (batch.side !== beginner.subscription.side) continue
    const changes = batch.changes.filter(({ seen_at: at }) => at >= range.from && at < range.to)
    const due = changes[0] ? pace(changes[0].seen_at) : 0
    const sent = send(replay, await framesOf(replay, { ...batch, changes }), due)
    if ((await isDoneWithin(sent, SEATED_WAIT_MS)) && !seat.isOver()) continue
    // Before the next record is taken: the position holds no longer then.
    return { position: batch.positionAfter(batch.changes.length), sent }
  }
  return undefined
}

/** An event of a replay. */
interface ReplayFrame {
  frame: Buffer
  items: number
}

/** The events of a batch, a quarter of what the batch itself takes; others have their turn between them. */
async function framesOf({ hub }: Replay, batch: ChangeBatch): Promise<ReplayFrame[]> {
  const frames: ReplayFrame[] = []
  for (const { frame, changes } of hub.deliver(batch)) {
    frames.push({ frame, items: changes.length })
    await nextTurn()
  }
  return frames
}

/** Sends what is due at a time, as its client reads. */
async function send(replay: Replay, frames: readonly ReplayFrame[], due: number): Promise<void> {
  const { stream, signal } = replay.beginner
  await untilDue(due, signal)
  for (const { frame, items } of frames) {
    stream.send(frame)
    replay.items += items
    await stream.drained()
    signal.throwIfAborted()
  }
}

/** Whether work is done within a time; rejects when it fails within it. */
async function isDoneWithin(work: Promise<void>, ms: number): Promise<boolean> {
  const { promise: limit, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(resolve, ms, false)
  return await Promise.race([work.then(() => true), limit]).finally(() => clearTimeout(timer))
}

/** The time at which a moment is due, by the monotonic clock; one that lies before the last is due already. */
function openPace(speed: number): (seenAt: number) => number {
  let start: { at: number; seenAt: number } | undefined
  return seenAt => {
    if (speed === 0) return 0
    start ??= { at: performance.now(), seenAt }
    return start.at + (seenAt - start.seenAt) / speed
  }
}

async function untilDue(due: number, signal: AbortSignal): Promise<void> {
  for (let left = due - performance.now(); left > 0; left = due - performance.now()) {
    await delay(Math.min(left, WAIT_MAX_MS), undefined, { signal })
  }
}
