/**
 * Writes several keys at once on the condition that a guard key is still as its owner left it.
 *
 * WATCH, GET, MULTI, EXEC on a connection that must not be shared and must not reconnect, since a WATCH
 * dies with its connection. Invariant: either everything is written or nothing, and nothing when
 * somebody else has written the guard, however long this process was paused in between.
 */
import type { Redis } from './redis.ts'

/** A queue of commands that are carried out together. */
export type Transaction = ReturnType<Redis['multi']>

/** Another owner has written the view; this one must read it again before it writes. */
export class Fenced extends Error {
  constructor(key: string) {
    super(`${key} was written by another owner`)
  }
}

/**
 * Carries out what `fill` queues if the guard's value is `expected` (null: absent) at that moment.
 *
 * Throws {@link Fenced} when it is not; the guard's new value is for `fill` to set.
 */
export async function writeGuarded(
  redis: Redis,
  guard: string,
  expected: string | null,
  fill: (transaction: Transaction) => void,
): Promise<void> {
  const [, current] = (await redis.pipeline().watch(guard).get(guard).exec()) ?? []
  if (current === undefined || current[0]) throw current?.[0] ?? new Error(`${guard} could not be read`)
  if (current[1] !== expected) {
    await redis.unwatch()
    throw new Fenced(guard)
  }
  const transaction = redis.multi()
  fill(transaction)
  const answers = await transaction.exec()
  if (answers === null) throw new Fenced(guard)
  for (const [error] of answers) if (error) throw error
}
