/**
 * Item ids and times that the columns of the stores have room for.
 *
 * Every sink asks before it takes a record, so that an unstorable one becomes a dead letter and
 * never a write that fails for ever.
 */
import type { Instant } from './instant.ts'

const LAST_INSTANT = Date.UTC(2100, 0, 1)
const LAST_ITEM_ID = 2 ** 31 - 1

/** Why a record cannot be stored; undefined when it can. */
export function unstorable(itemId: number, time: Instant): { reason: string; detail: string } | undefined {
  if (!Number.isInteger(itemId) || itemId < 0 || itemId > LAST_ITEM_ID) {
    return { reason: 'item_out_of_range', detail: `item ${itemId}` }
  }
  if (!Number.isInteger(time) || time < 0 || time >= LAST_INSTANT) {
    return { reason: 'time_out_of_range', detail: `time ${time}` }
  }
  return undefined
}
