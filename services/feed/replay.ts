/**
 * GET /feed/replay/*: recorded changes in the feed's own events, at the speed that is asked for.
 *
 * `from` and `to` are event time (`seen_at`). A change is recorded after it was seen, or little before where its provider's
 * clock is ahead, so the log is read from a little before `from` on; it may be recorded long after (a backfill), so the log is
 * read to its end as of the request. Order: of recording. The same range of the same log is replayed alike each time; a replay has a
 * reader of its own, which reads no more than a fetch ahead of the client, and is kept open by pings while it waits for its time.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { HttpError } from '#infra/http/http-error.ts'
import { letYoungHeapGrow } from '#infra/runtime/heap.ts'
import { nextTurn } from '#infra/runtime/turns.ts'
import type { ReplayQuery } from '#schemas/api/feed-query.ts'
import type { FeedSide } from '#schemas/events/feed-advanced.ts'
import { CLOCK_SLACK_MS } from '#schemas/values/event-time.ts'
import { parseInstant } from '#schemas/values/instant.ts'
import type { ChangeRecord, FeedChange } from './feed-topics.ts'
import { changesFrames, type FrameItems, replayEndFrame } from './frames.ts'
import type { StartStream } from './gateway.ts'
import { wantsItem, wantsProvider } from './hub.ts'
import type { LogReader } from './log-reader.ts'

const WAIT_MAX_MS = 60_000
const FRAMED_IN_A_TURN = 1_000

/**
 * The range that a query names, without the moment `to`; `now` ends one that names no end. `speed`: times the pace at which it was
 * seen; 0: as fast as the client reads.
 */
export function replayRangeOf({ from, to, speed = '1' }: ReplayQuery, now: number) {
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

export interface ReplayParts extends FrameItems {
  openReader(side: FeedSide): Promise<Pick<LogReader, 'since' | 'records' | 'close'>>
}

/** Makes the stream that replays a range; `release` frees what the replay holds before its client can ask for another. */
export function replayOf(
  range: ReturnType<typeof replayRangeOf>,
  parts: ReplayParts,
  release: () => void,
): StartStream {
  return async subscriber => {
    const { stream, ready, side, signal } = subscriber
    letYoungHeapGrow()
    stream.send(ready)
    const isWanted = ({ event, value }: ChangeRecord): boolean =>
      event !== 'RefreshMarked' &&
      value.side === side &&
      value.seen_at >= range.from &&
      value.seen_at < range.to &&
      wantsProvider(subscriber, value.provider) &&
      wantsItem(subscriber, value.item_id, parts.itemOf)
    const pace = openPace(range.speed)
    const reader = await parts.openReader(side)
    let [items, framed] = [0, 0]
    try {
      const offsets = await reader.since(Math.max(0, range.from - CLOCK_SLACK_MS))
      for await (const records of reader.records(offsets, signal)) {
        const changes = records.filter(isWanted).map(({ value }) => value as FeedChange)
        for (const { bytes, ends, seenAt } of changesFrames(side, changes, parts)) {
          await untilDue(pace(seenAt), signal)
          stream.send(bytes)
          items += ends.length
          framed += ends.length
          await stream.drained()
          signal.throwIfAborted()
          if (framed < FRAMED_IN_A_TURN) continue
          await nextTurn()
          framed = 0
        }
      }
    } finally {
      await reader.close()
    }
    release()
    stream.send(replayEndFrame(items))
    stream.end('closed: the replay is complete')
  }
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
