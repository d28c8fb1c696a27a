/**
 * The partition of an item's records in every topic that is partitioned by item: that of the item's id as a key
 * (partition.ts), so that the changes, alerts and live rows of an item have the same partition number.
 */
import { ITEM_PARTITIONS } from '../topics.ts'
import { partitionOf } from './partition.ts'

/** A lookup costs a tenth of hashing. Ids are dense from 1; ids above this bound, which clients may send, are not cached. */
const CACHED_IDS = 1 << 17
const cached = new Int8Array(CACHED_IDS).fill(-1)

/** The partition of an item among `ITEM_PARTITIONS`, 0-based. */
export function partitionOfItem(itemId: number): number {
  const cachedPartition = cached[itemId]
  if (cachedPartition !== undefined && cachedPartition >= 0) return cachedPartition
  const partition = partitionOf(String(itemId), ITEM_PARTITIONS)
  if (cachedPartition !== undefined) cached[itemId] = partition
  return partition
}
