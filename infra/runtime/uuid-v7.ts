/**
 * UUIDs of version 7 (RFC 9562): a time in milliseconds, then a counter, then random bits.
 *
 * Draws random bytes, stores nothing. Invariant: ids of one source ascend in the order in which they were
 * made, also within a millisecond and when the clock steps back, so that an order by id is one by creation.
 */
import { randomBytes } from 'node:crypto'

/** Makes ids; the time of each is given in milliseconds since the epoch. */
export type UuidSource = (now: number) => string

const COUNTER_MOST = 0xfff

/** Opens a source of ids. */
export function openUuidSource(): UuidSource {
  let lastMs = 0
  let counter = 0
  return now => {
    if (now > lastMs) {
      lastMs = now
      // The upper half stays free, so that a millisecond can count on.
      counter = randomBytes(2).readUInt16BE() & (COUNTER_MOST >> 1)
    } else if (counter < COUNTER_MOST) counter += 1
    else {
      lastMs += 1
      counter = 0
    }
    const time = lastMs.toString(16).padStart(12, '0')
    const tail = randomBytes(8)
    tail[0] = ((tail[0] ?? 0) & 0x3f) | 0x80
    const rest = tail.toString('hex')
    const middle = (0x7000 | counter).toString(16)
    return `${time.slice(0, 8)}-${time.slice(8)}-${middle}-${rest.slice(0, 4)}-${rest.slice(4)}`
  }
}
