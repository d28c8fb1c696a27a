/**
 * The newest changes of a topic as this gateway delivered them: frames in their order, each encoded once, and the position that each leads to.
 *
 * The oldest frames go when the window holds more than its bytes. Frames are taken out by their index, so a stream that reads the
 * window while it moves on never skips one: an index that is gone is told from the end. Changes of items that the catalog lacks are in no frame.
 */
import type { FeedSide } from '#schemas/events/feed-advanced.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import type { FeedChange } from './feed-topics.ts'
import { changeText, type FrameItems, type ItemsFrame, itemsFrames } from './frames.ts'
import { covers, firstUndelivered, type LogPosition, providerSide } from './log-position.ts'
import type { LogReader } from './log-reader.ts'
import type { AssembledBatch } from './refresh-assembler.ts'

/** An event of the log, with what filters and positions need of each of its items. */
export interface FeedFrame extends ItemsFrame {
  side: FeedSide
  provider: string
  itemIds: Int32Array
  partitions: Uint8Array
  offsets: Float64Array
  /** Of a stream that got this and all frames before it. */
  after: LogPosition
}

/** The frames of a batch with their changes, one or some for each moment that it holds. */
export function* framesOf(batch: AssembledBatch, { itemOf, itemText }: FrameItems) {
  const { side, provider, changes, offsets } = batch
  const listed = changes.flatMap((change, at) => (itemOf(change.item_id) ? [at] : []))
  let framed = 0
  for (const moment of runsOf(listed, at => (changes[at] as FeedChange).seen_at)) {
    const first = changes[moment[0] as number] as FeedChange
    const texts = moment.map(at => {
      const change = changes[at] as FeedChange
      return changeText(change, itemOf(change.item_id) as CatalogItem, itemText)
    })
    let from = 0
    for (const encoded of itemsFrames({ side, provider, seenAt: first.seen_at }, texts)) {
      const own = moment.slice(from, from + encoded.ends.length)
      from += own.length
      framed += own.length
      const through = listed[framed] ?? changes.length
      const frame: FeedFrame = {
        ...encoded,
        side,
        provider,
        itemIds: Int32Array.from(own, at => (changes[at] as FeedChange).item_id),
        partitions: Uint8Array.from(own, at => (offsets[at] as { partition: number }).partition),
        offsets: Float64Array.from(own, at => (offsets[at] as { offset: number }).offset),
        after: batch.positionAfter(through),
      }
      yield { frame, changes: own.map(at => changes[at] as FeedChange) }
    }
  }
}

function* runsOf<T>(values: readonly T[], of: (value: T) => unknown): Iterable<readonly T[]> {
  let from = 0
  for (let at = 1; at <= values.length; at++) {
    if (at < values.length && of(values[at] as T) === of(values[from] as T)) continue
    yield values.slice(from, at)
    from = at
  }
}

/** The indexes of a frame's items that a stream lacks which has a position. */
export function lackingItems({ side, provider, partitions, offsets }: FeedFrame, position: LogPosition): number[] {
  const key = providerSide(side, provider)
  const indexes: number[] = []
  for (let at = 0; at < offsets.length; at++) {
    if ((offsets[at] as number) >= firstUndelivered(position, key, partitions[at] as number)) indexes.push(at)
  }
  return indexes
}

export type FeedWindow = ReturnType<typeof openFeedWindow>

/** Of an item beside its text, and of a frame beside its items. */
const [ITEM_BYTES, FRAME_BYTES] = [17, 600]

const bytesOf = (frame: FeedFrame): number => frame.bytes.length + frame.ends.length * ITEM_BYTES + FRAME_BYTES

export function openFeedWindow(maxBytes: number, from: LogPosition) {
  const frames = new Map<number, FeedFrame>()
  let [first, end] = [0, 0]
  let [start, position] = [from, from]
  let bytes = 0
  const put = (index: number, frame: FeedFrame): void => {
    frames.set(index, frame)
    bytes += bytesOf(frame)
  }
  return {
    maxBytes,
    /** All that lies before it. */
    start: () => start,
    /** All that has been delivered by now. */
    position: () => position,
    append(frame: FeedFrame): void {
      put(end++, frame)
      position = frame.after
      while (bytes > maxBytes) {
        const oldest = frames.get(first) as FeedFrame
        frames.delete(first++)
        bytes -= bytesOf(oldest)
        start = oldest.after
      }
    },
    /** Notes a position that needs no frame. */
    advance(reached: LogPosition): void {
      position = reached
    },
    /** Puts frames before the first, which lead to `start`; false when there is no room for all of them. */
    prepend(before: LogPosition, older: readonly FeedFrame[]): boolean {
      if (bytes + older.reduce((sum, frame) => sum + bytesOf(frame), 0) > maxBytes) return false
      for (const frame of older.toReversed()) put(--first, frame)
      start = before
      return true
    },
    /** The index of the first frame that a stream may lack; undefined where some of what it lacks is not in the window. */
    indexAfter(clientPosition: LogPosition): number | undefined {
      if (!covers(clientPosition, start)) return undefined
      // Each frame leads further than the one before it.
      let [index, after] = [first, end]
      while (index < after) {
        const middle = (index + after) >> 1
        if (covers(clientPosition, (frames.get(middle) as FeedFrame).after)) index = middle + 1
        else after = middle
      }
      return index
    },
    /** The frame at an index; undefined behind the last, or where it is gone. */
    frame: (index: number) => frames.get(index),
    isGone: (index: number) => index < first,
    size: () => bytes,
  }
}

const FIRST_STEP_MS = 60_000
const STEPS = 6

/**
 * Fills a window backwards from the log, in steps that double, until it is full or holds an hour: after a start the streams of other
 * gateways come, and resume from what this one has not seen.
 */
export async function loadWindow(
  window: FeedWindow,
  { log, ...items }: FrameItems & { log: Pick<LogReader, 'since' | 'read'> },
  signal: AbortSignal,
): Promise<void> {
  const startedAt = Date.now()
  for (let step = 0; step < STEPS && !signal.aborted; step++) {
    const { from: next } = await log.since(startedAt - FIRST_STEP_MS * 2 ** step)
    const [from, to] = [{ next, behind: new Map() }, window.start()]
    if (!covers(to, from)) continue
    const frames: FeedFrame[] = []
    let bytes = window.size()
    for await (const batch of log.read(from, to, signal)) {
      for (const { frame } of framesOf(batch, items)) {
        frames.push(frame)
        bytes += bytesOf(frame)
      }
      if (bytes > window.maxBytes) return
    }
    // Frames that came meanwhile may have moved the first one out.
    if (window.start() !== to || !window.prepend(from, frames)) return
  }
}
