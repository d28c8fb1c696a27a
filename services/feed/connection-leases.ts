/**
 * The cap on feed connections of one key, both feeds together.
 *
 * Counts in this process; several gateway processes need a holder of the same shape that counts in a
 * shared store. Invariant: a lease is counted until it is released, once, however often that is asked.
 */

/** A counted connection. */
export interface Lease {
  release(): void
}

/** Counts connections. */
export interface ConnectionLeases {
  /** A lease, or undefined when the key holds `max` already. Rejects when the count cannot be known. */
  acquire(keyId: string, max: number): Promise<Lease | undefined>
}

/** Opens a count of this process alone. */
export function openLocalLeases(): ConnectionLeases {
  const counts = new Map<string, number>()
  return {
    async acquire(keyId, max) {
      const count = counts.get(keyId) ?? 0
      if (count >= max) return undefined
      counts.set(keyId, count + 1)
      let isHeld = true
      return {
        release() {
          if (!isHeld) return
          isHeld = false
          const left = (counts.get(keyId) ?? 1) - 1
          if (left > 0) counts.set(keyId, left)
          else counts.delete(keyId)
        },
      }
    },
  }
}
