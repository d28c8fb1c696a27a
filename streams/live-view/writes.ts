/**
 * The Redis writes that bring a batch into one generation of a partition's table, and note what they touch.
 *
 * One write per item and one per listing, whatever the number of rows; all keys carry the partition's hash tag. Each flush
 * notes its `next` for every provider that it touches, in the same atomic write: a provider whose note is not above a
 * manifest's `next` is in that manifest as the table shows it.
 */
import type { KeyWrite } from '#infra/redis/guarded-write.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import type { LiveBatch } from './step.ts'
import { itemKey, listingKey, touchedField, touchedKey } from './table.ts'

/** One generation of a partition's table in a namespace. */
export interface TableId {
  partition: number
  generation: number
  prefix: string
}

const SIDES: readonly Side[] = ['ask', 'bid']

/** All writes of a batch. */
export function writesOf({ partition, generation, prefix }: TableId, batch: LiveBatch): KeyWrite[] {
  const writes: KeyWrite[] = []
  const queue = (command: KeyWrite['command'], key: string, args: readonly string[]): void => {
    if (args.length > 0) writes.push({ command, key, args })
  }
  for (const side of SIDES) {
    for (const [itemId, rows] of batch[side].items) {
      const set: string[] = []
      const gone: string[] = []
      for (const [provider, text] of rows) {
        if (text === null) gone.push(provider)
        else set.push(provider, text)
      }
      const key = itemKey(partition, generation, side, itemId, prefix)
      queue('HSET', key, set)
      queue('HDEL', key, gone)
    }
    for (const [provider, items] of batch[side].listings) {
      const listed: string[] = []
      const gone: string[] = []
      for (const [itemId, isListed] of items) {
        const member = String(itemId)
        if (isListed) listed.push(member, member)
        else gone.push(member)
      }
      const key = listingKey(partition, generation, side, provider, prefix)
      queue('ZADD', key, listed)
      queue('ZREM', key, gone)
    }
  }
  return writes
}

/** Side and provider of all that a batch changes, refresh times included. */
export function touchedBy(batch: LiveBatch): string[] {
  const fields = new Set<string>()
  for (const side of SIDES) {
    for (const rows of batch[side].items.values()) for (const key of rows.keys()) fields.add(touchedField(side, key))
    for (const key of batch[side].refreshed.keys()) fields.add(touchedField(side, key))
  }
  return [...fields]
}

/** The write that notes what a flush touches. */
export function touchedWrites(
  { partition, prefix }: { partition: number; prefix: string },
  fields: readonly string[],
  next: number,
): KeyWrite[] {
  if (fields.length === 0) return []
  return [{ command: 'HSET', key: touchedKey(partition, prefix), args: fields.flatMap(field => [field, String(next)]) }]
}
