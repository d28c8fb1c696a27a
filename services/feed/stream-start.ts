/**
 * How a stream begins that asks for more than the specification: with the current state, or where an earlier stream ended.
 *
 * State or log first, then live, without gap or repeat: catch-up.ts delivers what lies between the beginning and the live
 * stream. Invariant: when an event with an id is sent, exactly the changes up to the id's position have been delivered. `ready`
 * has the id of the position from which the stream begins, so that a client cut off before its first event misses nothing; where
 * the state comes first, that id is of a scope of its own: it leads to the state again, and never past it.
 */
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import type { CatchUps } from './catch-up.ts'
import type { ChangeReader } from './change-reader.ts'
import { type ConcurrencyLimit, tooManyAtOnce } from './concurrency-limit.ts'
import type { EventStream } from './event-stream.ts'
import type { FeedRequest } from './feed-query.ts'
import { identifiedFrame, resyncFrame, snapshotEndFrame } from './frames.ts'
import type { Subscription } from './hub.ts'
import type { LiveState, PinnedState } from './live-state.ts'
import type { LogHistory } from './log-history.ts'
import { decodePosition, encodePosition, type LogPosition, ofSide } from './log-position.ts'

/** A subscriber that is not live yet. */
export interface Beginner {
  stream: EventStream
  /** The frame of `ready`, which is sent first. */
  ready: Buffer
  subscription: Subscription
  /** Adds it to the live stream, whose events are buffered for it. */
  join(): void
  /** Delivers what is buffered for it; live from now on. */
  goLive(): void
  /** Aborts when its stream is over. */
  signal: AbortSignal
}

/** Brings a subscriber to the live stream. */
export type Begin = (beginner: Beginner) => Promise<void>

/** A beginning, and what it has acquired until its stream is live or over. */
export interface Started {
  begin: Begin
  release(): void
}

/** What beginnings need. */
export interface StreamStartOptions {
  live: Pick<ChangeReader, 'between'>
  history: Pick<LogHistory, 'judge'>
  catchUps: Pick<CatchUps, 'bring'>
  /** Of streams that are not live yet. */
  concurrency: ConcurrencyLimit
  state: LiveState
  /** Of the ids of a feed. */
  scopeOf(subscription: Subscription): string
}

/** What a stream begins with. */
interface Start {
  resync?: 'expired' | 'unknown'
  state?: PinnedState
  /** What its client has. */
  position?: LogPosition | undefined
}

/** What a client asks for. */
interface Wanted {
  isResumable: boolean
  /** Pins the current state; undefined where none was asked for. */
  pin: (() => Promise<PinnedState>) | undefined
}

/**
 * Prepares the beginning of a stream; undefined for one that begins live. Rejects when the state is not there, and refuses
 * when too many streams are not live yet.
 */
export async function prepareStart(
  { subscription, options: { resume, snapshot } }: FeedRequest,
  providers: readonly string[],
  lastEventId: string | undefined,
  options: StreamStartOptions,
): Promise<Started | undefined> {
  if (!resume && !snapshot) return undefined
  const start: Start = {}
  if (resume && lastEventId !== undefined) {
    const scope = options.scopeOf(subscription)
    // A client that has a part of the state gets all of it again, from a later position, or must fetch it: `unknown`.
    const isIncomplete = decodePosition(lastEventId, beforeState(scope), ITEM_PARTITIONS) !== undefined
    if (!isIncomplete || !snapshot) {
      Object.assign(start, await judge(decodePosition(lastEventId, scope, ITEM_PARTITIONS), options))
    }
  }
  const pin = snapshot ? () => options.state.pin(subscription, providers) : undefined
  const wanted: Wanted = { isResumable: resume, pin }
  if (!start.position && !pin) return { begin: beginner => begin(beginner, start, wanted, options), release: () => {} }
  const release = options.concurrency.tryAcquire()
  if (!release) throw tooManyAtOnce()
  try {
    if (!start.position && pin) start.state = await pin()
  } catch (error) {
    release()
    throw error
  }
  return { begin: beginner => begin(beginner, start, wanted, options).finally(release), release }
}

/** The scope of ids that are sent before the state at their position is complete. */
const beforeState = (scope: string): string => `${scope}|state`

async function judge(position: LogPosition | undefined, { history }: StreamStartOptions): Promise<Start> {
  const judged = position ? await history.judge(position) : 'unknown'
  return judged === 'kept' ? { position } : { resync: judged }
}

async function begin(beginner: Beginner, start: Start, { isResumable, pin }: Wanted, options: StreamStartOptions) {
  const { stream, subscription, ready } = beginner
  const scope = options.scopeOf(subscription)
  const inScope = (frame: Buffer, position: LogPosition, within: string): Buffer =>
    isResumable ? identifiedFrame(frame, encodePosition(ofSide(position, subscription.side), within)) : frame
  const identified = (frame: Buffer, position: LogPosition): Buffer => inScope(frame, position, scope)
  const bring = (from: LogPosition) =>
    options.catchUps.bring({ ...beginner, scope: isResumable ? scope : undefined }, from)
  let { state, resync } = start
  if (start.position) {
    stream.send(identified(ready, start.position))
    if ((await bring(start.position)) === 'live') return
    // The log moved on while the stream waited for what it lacks.
    resync = 'expired'
    state = await pin?.()
  } else if (state) stream.send(inScope(ready, state.position, beforeState(scope)))
  if (state) {
    if (resync) stream.send(resyncFrame(resync))
    const items = await sendState(beginner, state)
    stream.send(identified(snapshotEndFrame(items), state.position))
    if ((await bring(state.position)) === 'live') return
    throw new Error('the log does not reach back to the state')
  }
  const now = await options.live.between(position => joinAt(beginner, position))
  if (!start.position) stream.send(identified(ready, now))
  if (resync) stream.send(identified(resyncFrame(resync), now))
  beginner.goLive()
}

function joinAt(beginner: Beginner, position: LogPosition): LogPosition {
  beginner.join()
  return position
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
