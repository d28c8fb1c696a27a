/**
 * GET /feed/replay/prices: recorded changes in the feed's own events, at the speed that is asked for.
 *
 * `from` and `to` are event time (`seen_at`). A change is recorded after it was seen, or little before where its provider's
 * clock is ahead, so the log is read from a little before `from` on; it may be recorded long after (a backfill), so the log is
 * read to its end as of the request. Order: of recording. The same range of the same log is replayed alike each time; no more
 * than one fetch is read ahead of the client, and a stream that waits for its time is kept open by pings. States: seated (reads)
 * -> waiting (for its time, its client or a seat, with the events of one run of changes in memory, half a megabyte at most) ->
 * seated again, behind that run.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { HttpError } from '#infra/http/http-error.ts'
import { letYoungHeapGrow } from '#infra/runtime/heap.ts'
import { nextTurn } from '#infra/runtime/turns.ts'
import type { ReplayQuery } from '#schemas/api/feed-query.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { CLOCK_SLACK_MS } from '#schemas/values/event-time.ts'
import { parseInstant } from '#schemas/values/instant.ts'
import { type ItemText, replayEndFrame } from './frames.ts'
import { type Hub, openHub, type Subscription } from './hub.ts'
import type { ChangeRun, LogHistory } from './log-history.ts'
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
const FRAMED_IN_A_TURN = 1_000

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
  history: Pick<LogHistory, 'since' | 'changes'>
  seats: ReplaySeats
  itemOf(itemId: number): CatalogItem | undefined
  /** Shared by all that make frames of the same catalog; its own when left out. */
  itemText?: ItemText
}

/** Makes the stream that replays a range; `release` frees what the replay holds before its client can ask for another. */
export function replayOf(range: ReplayRange, needs: ReplayNeeds, release: () => void): Begin {
  return async beginner => {
    const { stream, ready, subscription, signal } = beginner
    letYoungHeapGrow()
    stream.send(ready)
    const hub = openHub<Subscription>(needs.itemOf, needs.itemText)
    hub.add(subscription)
    const bounds = await needs.history.since(Math.max(0, range.from - CLOCK_SLACK_MS))
    const replay: Replay = { beginner, hub, pace: openPace(range.speed), items: 0 }
    const isWanted = ({ side, seen_at: at }: BookChanged) =>
      side === subscription.side && at >= range.from && at < range.to
    for (let from: readonly number[] | undefined = bounds.from; from; ) {
      const seat = await needs.seats.take(signal)
      const runs = needs.history.changes({ from, to: bounds.to }, isWanted, signal)
      const left = await readSeated(replay, seat, runs).finally(seat.release)
      await left?.sent
      from = left?.next
    }
    release()
    stream.send(replayEndFrame(replay.items))
    stream.end('closed: the replay is complete')
  }
}

/** A replay that is under way. */
interface Replay {
  beginner: Beginner
  hub: Hub<Subscription>
  pace: ReturnType<typeof openPace>
  /** Delivered so far. */
  items: number
}

/** Where a replay goes on that has left its seat, and the events that it sends meanwhile. */
interface LeftSeat {
  next: readonly number[]
  sent: Promise<void>
}

/** Sends run by run until one has to wait or the seat is another's; undefined when all are sent. */
async function readSeated(
  replay: Replay,
  seat: ReplaySeat,
  runs: AsyncIterable<ChangeRun>,
): Promise<LeftSeat | undefined> {
  for await (const { changes, next } of runs) {
    const sent = send(replay, await framesOf(replay, changes))
    if ((await isDoneWithin(sent, SEATED_WAIT_MS)) && !seat.isOver()) continue
    return { next, sent }
  }
  return undefined
}

/** An event of a replay, and when it is due. */
interface ReplayFrame {
  frame: Buffer
  items: number
  due: number
}

/** The events of some changes, one of each provider and moment, in their order; others have their turn between them. */
async function framesOf({ hub, pace }: Replay, changes: readonly BookChanged[]): Promise<ReplayFrame[]> {
  const frames: ReplayFrame[] = []
  let made = 0
  for (const own of Map.groupBy(changes, ({ provider, seen_at: at }) => `${at} ${provider}`).values()) {
    const { side, provider, seen_at: at } = own[0] as BookChanged
    const due = pace(at)
    for (const { frame, changes: sent } of hub.deliver({ side, provider, changes: own })) {
      frames.push({ frame, items: sent.length, due })
      made += sent.length
      if (made < FRAMED_IN_A_TURN) continue
      await nextTurn()
      made = 0
    }
  }
  return frames
}

/** Sends each event when it is due, as its client reads. */
async function send(replay: Replay, frames: readonly ReplayFrame[]): Promise<void> {
  const { stream, signal } = replay.beginner
  for (const { frame, items, due } of frames) {
    await untilDue(due, signal)
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
