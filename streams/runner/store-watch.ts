/**
 * Notices that a view is no longer what its owner left: wiped, or replaced by an older copy, while no record comes.
 *
 * Asks the open slots of a member, a few seconds apart, and has those opened anew, all at once, whose store holds
 * something else; opening restores the view, which partitions may share the work of, and stands where it does. A batch would find out by itself, but a view that changes once an
 * hour would stay empty for an hour. Invariant: a slot at work is left alone, and so is one whose store does not answer.
 */
import type { Log } from '#infra/runtime/log.ts'
import type { TopicKey } from '#schemas/topics.ts'
import type { Slots } from './slots.ts'

/** What can be asked of a slot. */
export interface WatchedSlot {
  /** Counts the begins and ends of batches; odd while one is under way. */
  turns: number
  /** Whether the store holds what the slot last read or wrote; undefined where nothing is stored. */
  stands: (() => Promise<boolean>) | undefined
  close(): Promise<void>
}

/** A running watch. */
export interface StoreWatch {
  close(): Promise<void>
}

interface Opened<S> {
  topic: TopicKey
  partition: number
  slot: S
}

const LOOK_EVERY_MS = 2_000

/** Opens the watch of a member's slots. */
export function watchStores<S extends WatchedSlot>(
  slots: Slots<S>,
  log: Log,
  everyMs: number = LOOK_EVERY_MS,
): StoreWatch {
  /** Resolves with what opens a slot anew, where that is called for. */
  const ask = async ({ topic, partition, slot }: Opened<S>): Promise<() => void> => {
    const { turns } = slot
    if (slot.stands === undefined || turns % 2 === 1 || (await slot.stands())) return () => undefined
    return () => {
      if (isClosed || slot.turns !== turns || slots.peek(topic, partition) !== slot) return
      log.warn({ topic, partition }, 'the view of a partition is not what was left there; it is opened anew')
      slots.reopen(slot)
    }
  }
  let isClosed = false
  const look = async (): Promise<void> => {
    for (const asked of await Promise.allSettled(slots.opened().map(ask))) {
      if (asked.status === 'fulfilled') asked.value()
      else log.debug({ error: asked.reason }, 'a store could not be asked')
    }
  }
  let looking = Promise.resolve()
  const arm = (): NodeJS.Timeout =>
    setTimeout(() => {
      looking = look().then(() => {
        if (!isClosed) timer = arm()
      })
    }, everyMs)
  let timer = arm()
  return {
    async close() {
      isClosed = true
      clearTimeout(timer)
      await looking
    },
  }
}
