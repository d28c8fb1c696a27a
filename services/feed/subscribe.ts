/**
 * How a stream begins: live at once, with the current state, or after a position; and its one way from a position to live.
 *
 * The frames of the window after the position are sent, and where they end the subscriber joins the hub in the same turn of the loop, so that nothing
 * lies between them and nothing comes twice. A stream whose position has left the window is first brought to it from the log, at
 * most {@link LOG_READERS_MAX} at a time. Invariant: when an event with an id is sent, exactly the changes up to the id's position have
 * been delivered. `ready` has the id of the position from which the stream begins, so that a client cut off before its first event
 * misses nothing; where the state comes first, that id leads to the state again, and never past it.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { HttpError } from '#infra/http/http-error.ts'
import { nextTurn } from '#infra/runtime/turns.ts'
import type { FeedRequest } from './feed-request.ts'
import { type FrameItems, identifiedFrame, pickItems, resyncFrame, snapshotEndFrame } from './frames.ts'
import type { AuthorizedStream, StartingSubscriber } from './gateway.ts'
import { matchingItems } from './hub.ts'
import { covers, type EventIds, type IdKind, type LogPosition, unionOf } from './log-position.ts'
import type { LogReader } from './log-reader.ts'
import type { PinState, SnapshotState } from './snapshot.ts'
import { type FeedFrame, type FeedWindow, framesOf, lackingItems } from './window.ts'

export interface StartParts extends FrameItems {
  window: FeedWindow
  log: Pick<LogReader, 'check' | 'read'>
  pinState: PinState
  ids: EventIds
  acquireStart: AcquirePermit
  acquireLogReader: AcquirePermit
}

export const LOG_READERS_MAX = 4
/** Of a stream that is read from the log, with a client that reads slowly. */
const LOG_READ_LIMIT_MS = 60_000
/** A client that was at another gateway may be a moment ahead of this one. */
const REACH_LIMIT_MS = 10_000
const REACH_POLL_MS = 10
/** Frames of the window that one stream looks at before others have their turn. */
const FRAMES_IN_A_TURN = 500

/** A stream whose request is accepted; `release` gives back what it has acquired. */
export type StreamStart = Pick<AuthorizedStream, 'begin' | 'release'>

interface Beginning {
  resync: 'expired' | 'unknown' | undefined
  state: SnapshotState | undefined
  /** Of its client. */
  position: LogPosition | undefined
  /** The permit to read the log, where the position is not in the window. */
  logPermit: (() => void) | undefined
}

/**
 * Checks what a request resumes from and pins the state that it asks for. Rejects when the state is not there or the log does not
 * answer, and refuses when too many streams are not live yet.
 */
export async function prepareStart(
  feed: FeedRequest,
  lastEventId: string | undefined,
  parts: StartParts,
): Promise<StreamStart> {
  const { snapshot } = feed.options
  const { position, resync } = await resumeAt(feed, lastEventId, parts)
  const permits: (() => void)[] = []
  const acquire = (acquirePermit: AcquirePermit): (() => void) => {
    const permit = acquirePermit()
    permits.push(permit)
    return permit
  }
  const release = (): void => {
    for (const permit of permits) permit()
  }
  try {
    if (position || snapshot) acquire(parts.acquireStart)
    const state = snapshot && !position ? await parts.pinState(feed.subscription, feed.providers) : undefined
    const isOld = position && !covers(position, parts.window.start())
    const beginning = { resync, state, position, logPermit: isOld ? acquire(parts.acquireLogReader) : undefined }
    return { begin: subscriber => begin(subscriber, beginning, parts).finally(release), release }
  } catch (error) {
    release()
    throw error
  }
}

/** The position of a client that resumes, or why it must fetch the state again. */
async function resumeAt(
  { subscription: { side }, options: { resume, snapshot } }: FeedRequest,
  lastEventId: string | undefined,
  { ids, window, log }: StartParts,
): Promise<{ position?: LogPosition; resync?: 'expired' | 'unknown' }> {
  if (!resume || lastEventId === undefined) return {}
  // A client that has a part of the state gets all of it again, from a later position, or must fetch it: `unknown`.
  if (snapshot && ids.read(lastEventId, side, 'snapshot')) return {}
  const position = ids.read(lastEventId, side, 'changes')
  if (!position) return { resync: 'unknown' }
  // A position in the window needs no request to the log.
  if (covers(position, window.start()) && covers(window.position(), position)) return { position }
  const retention = await log.check(position)
  return retention === 'kept' ? { position } : { resync: retention }
}

/** Sends what comes before the live stream and joins it; rejects when that cannot be done, or the stream is over. */
async function begin(subscriber: StartingSubscriber, beginning: Beginning, parts: StartParts): Promise<void> {
  const { stream, ready, isResuming, side, signal } = subscriber
  const { window, ids } = parts
  const identified = (frame: Buffer, position: LogPosition, kind: IdKind = 'changes'): Buffer =>
    isResuming ? identifiedFrame(frame, ids.write(position, side, kind)) : frame
  const { resync, state, position, logPermit } = beginning
  if (position) {
    stream.send(identified(ready, position))
    return catchUp(subscriber, position, parts, logPermit)
  }
  if (state) {
    stream.send(identified(ready, state.position, 'snapshot'))
    if (resync) stream.send(resyncFrame(resync))
    const items = await sendState(subscriber, state)
    stream.send(identified(snapshotEndFrame(items), state.position))
    signal.throwIfAborted()
    return catchUp(subscriber, state.position, parts)
  }
  stream.send(identified(ready, window.position()))
  if (resync) stream.send(identified(resyncFrame(resync), window.position()))
  subscriber.join()
}

async function sendState({ stream, signal }: StartingSubscriber, state: SnapshotState): Promise<number> {
  let sent = 0
  for await (const { frame, items } of state.events()) {
    stream.send(frame)
    sent += items
    await stream.drained()
    signal.throwIfAborted()
  }
  return sent
}

/** Brings a stream from a position to live: by the log up to where the window begins, then by the window. */
async function catchUp(
  subscriber: StartingSubscriber,
  from: LogPosition,
  parts: StartParts,
  logPermit?: () => void,
): Promise<void> {
  const { stream, signal } = subscriber
  const { window } = parts
  // A second reading needs a permit of its own.
  const permits = logPermit ? [logPermit] : []
  await untilReached(window, from, signal)
  const sender = openSender(subscriber, from, parts)
  let index: number | undefined
  for (let looks = 1; ; looks++) {
    if (index === undefined || window.isGone(index)) index = window.indexAfter(sender.position())
    if (index === undefined) {
      await sendFromLog(sender, subscriber, parts, permits.pop() ?? parts.acquireLogReader())
      continue
    }
    const frame = window.frame(index++)
    // Joined in the turn in which the window has no more.
    if (!frame) return subscriber.join()
    sender.send(frame)
    if (stream.waiting() > 0) await stream.drained()
    if (looks % FRAMES_IN_A_TURN === 0) await nextTurn()
    signal.throwIfAborted()
  }
}

async function untilReached(window: FeedWindow, position: LogPosition, signal: AbortSignal): Promise<void> {
  const limit = performance.now() + REACH_LIMIT_MS
  while (!covers(window.position(), position)) {
    if (performance.now() > limit) throw new Error('the live stream does not reach the position to begin from')
    await delay(REACH_POLL_MS, undefined, { signal })
  }
}

async function sendFromLog(
  sender: ReturnType<typeof openSender>,
  { stream, signal }: StartingSubscriber,
  parts: StartParts,
  permit: () => void,
): Promise<void> {
  try {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(LOG_READ_LIMIT_MS)])
    const to = parts.window.start()
    for await (const batch of parts.log.read(sender.position(), to, limited)) {
      for (const { frame } of framesOf(batch, parts)) {
        sender.send(frame)
        await stream.drained()
        limited.throwIfAborted()
      }
    }
    sender.advance(to)
  } finally {
    permit()
  }
}

/** Sends frames to one subscriber: what it wants and lacks of them. */
function openSender(subscriber: StartingSubscriber, from: LogPosition, { itemOf, ids }: StartParts) {
  const { stream, side, isResuming } = subscriber
  let position = from
  /** Whether the frames so far lead to all that the client had. */
  let isAligned = false
  return {
    /** All that the client has. */
    position: () => position,
    /** Notes a position that needs no frame. */
    advance(reached: LogPosition): void {
      position = unionOf(position, reached)
      isAligned = false
    },
    send(frame: FeedFrame): void {
      const lacking = isAligned ? undefined : new Set(lackingItems(frame, position))
      const indexes = matchingItems(subscriber, frame, itemOf).filter(at => lacking?.has(at) ?? true)
      isAligned ||= covers(frame.after, position)
      position = isAligned ? frame.after : unionOf(position, frame.after)
      if (indexes.length === 0) return
      const bytes = pickItems(frame, indexes)
      stream.send(isResuming ? identifiedFrame(bytes, ids.write(position, side)) : bytes)
    },
  }
}

/** Clients that are refused together must not come back together. */
const SPREAD_SECONDS = 10

/** Acquires a permit and returns its release, or refuses a client. */
export type AcquirePermit = () => () => void

/** Bounds how much runs at a time: nothing waits, and each client that is refused has a time of its own to come back. */
export function openPermits(most: number, onChange: (acquired: number) => void = () => undefined): AcquirePermit {
  let acquired = 0
  const change = (by: number): void => {
    acquired += by
    onChange(acquired)
  }
  return () => {
    if (acquired >= most) {
      const detail = 'Too many streams read the past at the moment; wait as Retry-After says.'
      const seconds = 1 + Math.floor(Math.random() * SPREAD_SECONDS)
      throw new HttpError('SERVICE_UNAVAILABLE', detail, { headers: ['Retry-After', String(seconds)] })
    }
    change(1)
    let isHeld = true
    return () => {
      if (isHeld) change(-1)
      isHeld = false
    }
  }
}
