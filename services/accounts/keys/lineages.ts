/**
 * Lineages of keys: what limits are counted for, whichever key of them is in use.
 *
 * Reads api_keys within the caller's transaction, which has locked the account; writes nothing. The lineage of a root key is its
 * account's, since every root but the first goes on with it. Invariant: a new child begins a lineage only when no ended one of
 * the period is left, so within a period an account never has more lineages than it had children at a time, and
 * deleting and making keys yields nothing.
 */
import type { Query } from '#infra/postgres/pool.ts'
import { DAY_MS } from '#schemas/values/instant.ts'

/** Of an account with more ended lineages, all from before lineages went on, the latest count. */
const ENDED_MAX = 1_000

/** The lineage of a key, in SQL. */
export const LINEAGE = 'coalesce(k.lineage_id, k.id)'

/**
 * The ended lineage that a new child key goes on with: of those that no active child has, the one with most requests in the
 * month, and of several the one that ended last. Undefined when there is none: the child begins one.
 */
export async function lineageToInherit(
  query: Query,
  accountId: string,
  { now, usedOf }: { now: number; usedOf(lineageIds: readonly string[]): Promise<number[]> },
): Promise<string | undefined> {
  const ended = await query<{ id: string }>(
    `SELECT ${LINEAGE} AS id FROM api_keys k WHERE k.account_id = $1 AND k.kind = 'child' GROUP BY 1
     HAVING bool_and(k.revoked_at IS NOT NULL OR coalesce(k.expires_at <= $2, false))
       AND max(least(k.revoked_at, k.expires_at)) >= $3
     ORDER BY max(least(k.revoked_at, k.expires_at)) DESC, 1 LIMIT ${ENDED_MAX}`,
    [accountId, new Date(now), new Date(periodStart(now))],
  )
  if (ended.length === 0) return undefined
  const used = await usedOf(ended.map(({ id }) => id))
  const most = used.reduce((best, count, i) => (count > (used[best] ?? 0) ? i : best), 0)
  return ended[most]?.id
}

/** Since when something of a lineage may still be counted: the month in UTC, and the last 24 hours. */
function periodStart(now: number): number {
  const date = new Date(now)
  return Math.min(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1), now - DAY_MS)
}
