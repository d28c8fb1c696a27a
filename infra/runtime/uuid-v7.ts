/**
 * UUIDs of version 7 (RFC 9562): a time in milliseconds, then a counter, then random bits.
 *
 * Ids of one source ascend in the order in which they were made, also within a millisecond and when the clock steps back, so
 * that an order by id is one by creation. The library counts for its own clock alone; here time is an argument.
 */
import { randomInt } from 'node:crypto'
import { v7 } from 'uuid'

/** The upper half of the 32 bits stays free, so that a millisecond can count on. */
const COUNTER_START_LIMIT = 2 ** 31

/** Opens a source of ids; the time of each is given in milliseconds since the epoch. */
export function openUuidSource(): (now: number) => string {
  let msecs = 0
  let seq = 0
  return now => {
    if (now > msecs) {
      msecs = now
      seq = randomInt(COUNTER_START_LIMIT)
    } else seq += 1
    return v7({ msecs, seq })
  }
}
