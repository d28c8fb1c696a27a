/**
 * Repeatable creates: the answer to an Idempotency-Key is stored with what it created.
 *
 * Writes idempotency_keys inside the caller's transaction. Invariant: of two creates with one key of an account at most
 * one happens - the second waits for the first to commit and is given its answer - and a create that was refused
 * or rolled back leaves its key free. A key counts for a day; another request under it is refused.
 */
import { createHash } from 'node:crypto'
import type { Query } from '#infra/postgres/pool.ts'
import { Refusal } from './refusal.ts'

/** A key, and the request that it names. */
export interface IdempotencyKey {
  key: string
  /** SHA-256 of the operation and its whole input. */
  hash: Buffer
}

/** How long a key counts. */
export const KEPT_MS = 24 * 60 * 60_000
/** Expired keys that one create deletes: more than it adds, so that they never accumulate. */
const CLEARED = 20

/** Names a request: its operation and everything that decides what it does. */
export function requestHash(operation: string, ...input: (string | Buffer)[]): Buffer {
  const hash = createHash('sha256').update(operation)
  for (const part of input) hash.update(`\0${Buffer.byteLength(part)}\0`).update(part)
  return hash.digest()
}

/** The answer of a create that was done already; undefined when it was not. For creates that first call another service. */
export async function answeredBefore<T>(
  query: Query,
  { accountId, now, idempotencyKey }: { accountId: string; now: number; idempotencyKey?: IdempotencyKey | undefined },
): Promise<T | undefined> {
  if (!idempotencyKey) return undefined
  const known = await query(
    'SELECT 1 FROM idempotency_keys WHERE account_id = $1 AND key = $2 AND created_at > $3 AND answer IS NOT NULL',
    [accountId, idempotencyKey.key, new Date(now - KEPT_MS)],
  )
  return known.length === 0 ? undefined : (JSON.parse(await answerOf(query, accountId, idempotencyKey)) as T)
}

/** Runs a create, or answers what it answered before. What it answers must be plain JSON. */
export async function answerOnce<T>(
  query: Query,
  scope: { accountId: string; now: number; idempotencyKey?: IdempotencyKey | undefined },
  create: () => Promise<T>,
): Promise<T> {
  const { accountId, now, idempotencyKey } = scope
  if (!idempotencyKey) return create()
  const expired = new Date(now - KEPT_MS)
  await query(
    `DELETE FROM idempotency_keys WHERE ctid IN (
      SELECT ctid FROM idempotency_keys WHERE created_at <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`,
    [expired, CLEARED],
  )
  const claimed = await query(
    `INSERT INTO idempotency_keys AS known (account_id, key, request_hash, created_at) VALUES ($1, $2, $3, $4)
    ON CONFLICT (account_id, key) DO UPDATE SET request_hash = EXCLUDED.request_hash, answer = NULL, created_at = $4
      WHERE known.created_at <= $5
    RETURNING key`,
    [accountId, idempotencyKey.key, idempotencyKey.hash, new Date(now), expired],
  )
  if (claimed.length === 0) return JSON.parse(await answerOf(query, accountId, idempotencyKey)) as T
  const result = await create()
  await query('UPDATE idempotency_keys SET answer = $3 WHERE account_id = $1 AND key = $2', [
    accountId,
    idempotencyKey.key,
    JSON.stringify(result),
  ])
  return result
}

async function answerOf(query: Query, accountId: string, { key, hash }: IdempotencyKey): Promise<string> {
  const [known] = await query<{ request_hash: Buffer; answer: string }>(
    'SELECT request_hash, answer FROM idempotency_keys WHERE account_id = $1 AND key = $2',
    [accountId, key],
  )
  if (!known) throw new Refusal('SERVICE_UNAVAILABLE', 'The first request with this key is just ending; try again.')
  if (known.request_hash.equals(hash)) return known.answer
  const msg = 'This key stands for another request already; send a new one'
  throw new Refusal('VALIDATION_ERROR', [
    { type: 'value_error', loc: ['header', 'Idempotency-Key'], msg, input: key, ctx: {} },
  ])
}
