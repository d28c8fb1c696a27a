/**
 * Which providers a flush touches, kept beside the table for the next build of snapshots.
 *
 * Each flush notes its `next` for every provider that it touches, in the same atomic write. Invariant: a
 * provider whose note is not above a manifest's `next` is in that manifest as the table shows it.
 */
import type { KeyWrite } from '#infra/redis/guarded-write.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { touchedField, touchedKey } from '#schemas/views/snapshot.ts'
import type { LiveBatch } from './step.ts'

const SIDES: readonly Side[] = ['ask', 'bid']

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
