/**
 * Queues the Redis commands that write a batch into one generation of a partition's table.
 *
 * Sends nothing itself: the sink sends them inside its guarded MULTI, the rebuild in plain pipelines
 * into a generation that nobody reads yet. One command per item and one per listing, whatever the
 * number of rows. Invariant: all keys carry the partition's hash tag.
 */
import type { Side } from '#schemas/events/book-changed.ts'
import { itemKey, listingKey } from '#schemas/views/live-keys.ts'
import type { LiveBatch } from './step.ts'

/** What commands are queued on: a pipeline or a MULTI. */
export interface CommandQueue {
  hset(key: string, ...fieldsAndValues: string[]): unknown
  hdel(key: string, ...fields: string[]): unknown
  zadd(key: string, ...scoresAndMembers: (string | number)[]): unknown
  zrem(key: string, ...members: (string | number)[]): unknown
}

/** Where a partition's rows stand. */
export interface TablePlace {
  partition: number
  generation: number
  prefix: string
}

const SIDES: readonly Side[] = ['ask', 'bid']

/** Queues all commands of a batch. */
export function queueBatch(queue: CommandQueue, place: TablePlace, batch: LiveBatch): void {
  const { partition, generation, prefix } = place
  for (const side of SIDES) {
    for (const [itemId, rows] of batch[side].items) {
      const set: string[] = []
      const gone: string[] = []
      for (const [provider, text] of rows) {
        if (text === null) gone.push(provider)
        else set.push(provider, text)
      }
      const key = itemKey(partition, generation, side, itemId, prefix)
      if (set.length > 0) queue.hset(key, ...set)
      if (gone.length > 0) queue.hdel(key, ...gone)
    }
    for (const [provider, items] of batch[side].listings) {
      const listed: number[] = []
      const gone: number[] = []
      for (const [itemId, isListed] of items) {
        if (isListed) listed.push(itemId, itemId)
        else gone.push(itemId)
      }
      const key = listingKey(partition, generation, side, provider, prefix)
      if (listed.length > 0) queue.zadd(key, ...listed)
      if (gone.length > 0) queue.zrem(key, ...gone)
    }
  }
}
