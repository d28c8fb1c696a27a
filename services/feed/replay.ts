/**
 * GET /feed/replay/prices: recorded changes in the feed's own events, at the speed that is asked for.
 *
 * `from` and `to` are event time (`seen_at`). A change is recorded after it was seen, or little before where its provider's
 * clock is ahead, so the log is read from a little before `from` on; it may be recorded long after (a backfill), so the log is
 * read to its end as of the request. Order: of recording. The same range of the same log is replayed alike each time; no more
 * than one fetch is read ahead of the client, and a stream that waits for its time is kept open by pings.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { HttpError } from '#infra/http/http-error.ts'
import type { ReplayQuery } from '#schemas/api/feed-query.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { CLOCK_SLACK_MS } from '#schemas/values/event-time.ts'
import { parseInstant } from '#schemas/values/instant.ts'
import { type ItemText, replayEndFrame } from './frames.ts'
import { openHub, type Subscription } from './hub.ts'
import type { LogHistory } from './log-history.ts'
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
  itemOf(itemId: number): CatalogItem | undefined
  /** Shared by all that make frames of the same catalog; its own when left out. */
  itemText?: ItemText
}

/** Makes the stream that replays a range. */
export function replayOf(range: ReplayRange, { history, itemOf, itemText }: ReplayNeeds): Begin {
  return async beginner => {
    const { stream, ready, subscription, signal } = beginner
    stream.send(ready)
    const hub = openHub<Subscription>(itemOf, itemText)
    hub.add(subscription)
    const bounds = await history.since(Math.max(0, range.from - CLOCK_SLACK_MS))
    const pace = openPace(range.speed)
    let items = 0
    for await (const batch of history.read(bounds.from, bounds.to, signal)) {
      const changes = batch.changes.filter(({ seen_at: at }) => at >= range.from && at < range.to)
      const [first] = changes
      if (batch.side !== subscription.side || !first) continue
      for (const { frame, changes: delivered } of hub.deliver({ ...batch, changes })) {
        await pace(first.seen_at, beginner)
        stream.send(frame)
        items += delivered.length
        await stream.drained()
        signal.throwIfAborted()
      }
    }
    stream.send(replayEndFrame(items))
    stream.end('closed: the replay is complete')
  }
}

/** Waits until a moment is due; does not wait for one that is due already or lies before the last. */
function openPace(speed: number): (seenAt: number, beginner: Beginner) => Promise<void> {
  let start: { at: number; seenAt: number } | undefined
  return async (seenAt, { signal }) => {
    if (speed === 0) return
    start ??= { at: performance.now(), seenAt }
    const due = start.at + (seenAt - start.seenAt) / speed
    for (let left = due - performance.now(); left > 0; left = due - performance.now()) {
      await delay(Math.min(left, WAIT_MAX_MS), undefined, { signal })
    }
  }
}
