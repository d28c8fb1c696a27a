/**
 * Which partition an item's records belong to, in every topic that is partitioned by item.
 *
 * Reads and writes nothing. Invariant: the partition of the item's id as a key (partition.ts), so that one item's
 * changes, state, alerts and live rows lie side by side.
 */
import { ITEM_PARTITIONS } from '../topics.ts'
import { partitionOf } from './partition.ts'

/** Hashing costs ten times as much as looking up. Ids are dense from 1; above this bound, which strangers may send, nothing is kept. */
const REMEMBERED = 1 << 17
const remembered = new Int8Array(REMEMBERED).fill(-1)

/** The partition of an item among `ITEM_PARTITIONS`, 0-based. */
export function partitionOfItem(itemId: number): number {
  const known = remembered[itemId]
  if (known !== undefined && known >= 0) return known
  const partition = partitionOf(String(itemId), ITEM_PARTITIONS)
  if (known !== undefined) remembered[itemId] = partition
  return partition
}
