/**
 * Notices that a view is no longer what its owner left: wiped, or replaced by an older copy, while no record comes.
 *
 * Checks the open slots of a member, a few seconds apart, and reopens those, all at once, whose store holds something else.
 * Opening restores the view, in work that partitions may share, and resumes at its position. A batch would find out by itself,
 * but a view that changes once an hour would stay empty for an hour. Invariant: a slot with a batch under way is left alone, and
 * so is one whose store does not answer.
 */
import type { Log } from '#infra/runtime/log.ts'
import type { TopicKey } from '#schemas/topics.ts'
import type { Slots } from './slots.ts'

/** What can be checked of a slot. */
export interface WatchedSlot {
  /** Raised at the begin and at the end of each batch; odd while one is under way. */
  batchSequence: number
  /** Whether the store holds what the slot last read or wrote; undefined where nothing is stored. */
  isCurrent: (() => Promise<boolean>) | undefined
  close(): Promise<void>
}

/** A running watch. */
interface StoreWatch {
  close(): Promise<void>
}

interface Opened<S> {
  topic: TopicKey
  partition: number
  slot: S
}

const CHECK_EVERY_MS = 2_000

/** Opens the watch of a member's slots. */
export function watchStores<S extends WatchedSlot>(
  slots: Slots<S>,
  log: Log,
  everyMs: number = CHECK_EVERY_MS,
): StoreWatch {
  /** Resolves with a function that reopens the slot where its store holds something else. */
  const check = async ({ topic, partition, slot }: Opened<S>): Promise<() => void> => {
    const { batchSequence } = slot
    if (slot.isCurrent === undefined || batchSequence % 2 === 1 || (await slot.isCurrent())) return () => undefined
    return () => {
      if (isClosed || slot.batchSequence !== batchSequence || slots.peek(topic, partition) !== slot) return
      log.warn({ topic, partition }, 'the view of a partition is not what was left there; it is opened again')
      slots.reopen(slot)
    }
  }
  let isClosed = false
  const checkAll = async (): Promise<void> => {
    for (const checked of await Promise.allSettled(slots.opened().map(check))) {
      if (checked.status === 'fulfilled') checked.value()
      else log.debug({ error: checked.reason }, 'a store could not be checked')
    }
  }
  let checking = Promise.resolve()
  const arm = (): NodeJS.Timeout =>
    setTimeout(() => {
      checking = checkAll().then(() => {
        if (!isClosed) timer = arm()
      })
    }, everyMs)
  let timer = arm()
  return {
    async close() {
      isClosed = true
      clearTimeout(timer)
      await checking
    },
  }
}
