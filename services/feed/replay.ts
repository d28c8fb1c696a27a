/**
 * GET /feed/replay/prices: recorded changes in the feed's own events, at the speed that is asked for.
 *
 * `from` and `to` are event time (`seen_at`). A change is recorded after it was seen, or little before where its provider's
 * clock is ahead, so the log is read from a little before `from` on; it may be recorded long after (a backfill), so the log is
 * read to its end as of the request. Order: of recording. The same range of the same log is replayed alike each time; no more
 * than one fetch is read ahead of the client, and a stream that waits for its time is kept open by pings.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Violation } from '#schemas/api/error.ts'
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

const SPEED_MAX = 10_000
const SPEED_FORM = /^(\d{1,5}(?:\.\d{1,3})?)x?$/
const WAIT_MAX_MS = 60_000

/** Reads `from`, `to` and `speed`; `now` ends a range that names no end. */
export function parseReplayRange(query: URLSearchParams, now: number): ReplayRange | Violation[] {
  const violations: Violation[] = []
  const fail = (type: Violation['type'], name: string, msg: string, input: unknown = null, ctx = {}) => {
    violations.push({ type, loc: ['query', name], msg, input, ctx })
    return 0
  }
  const once = (name: string): string | undefined => {
    const values = query.getAll(name)
    if (values.length > 1) fail('value_error', name, 'May be given once', values)
    return values[0]
  }
  const time = (name: string, text: string): number =>
    parseInstant(text) ??
    fail('datetime_parsing', name, 'Input should be YYYY-MM-DD, YYYY-MM-DDThh:mm:ss or an ISO 8601 time', text)
  const [fromText, toText, speedText = '1'] = [once('from'), once('to'), once('speed')]
  const from = fromText === undefined ? fail('missing', 'from', 'Field required') : time('from', fromText)
  const to = toText === undefined ? now : time('to', toText)
  const speed = Number(SPEED_FORM.exec(speedText)?.[1] ?? Number.NaN)
  if (Number.isNaN(speed)) fail('float_parsing', 'speed', 'Input should be a number such as 0, 1 or 10x', speedText)
  else if (speed > SPEED_MAX)
    fail('less_than_equal', 'speed', `Input should be at most ${SPEED_MAX}`, speedText, { le: SPEED_MAX })
  if (violations.length === 0 && to < from) fail('value_error', 'to', '`to` should not be before `from`', toText)
  return violations.length > 0 ? violations : { from, to, speed }
}

/** What replays need. */
export interface ReplayOptions {
  history: Pick<LogHistory, 'since' | 'read'>
  itemOf(itemId: number): CatalogItem | undefined
  /** Shared by all that make frames of the same catalog; its own when left out. */
  itemText?: ItemText
}

/** Makes the stream that replays a range. */
export function replayOf(range: ReplayRange, { history, itemOf, itemText }: ReplayOptions): Begin {
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
