/**
 * The account on the game's platform that belongs to an account: linked by signing in there, and unlinked.
 *
 * Reads and writes platform_links and the sign-ins of kind `platform`. States of such a sign-in: begun -> returned.
 * Invariant: the id comes from the platform alone; a return is used once, within its time, in the browser that began,
 * and links the account that began it. Readers of inventories take the id from platform_links.
 */
import type { Database } from '#infra/postgres/pool.ts'
import type { PlatformProvider } from '#infra/sign-in/platform-provider.ts'
import { Refusal } from '#schemas/api/refusal.ts'
import { hashOf, newText } from './one-time-text.ts'
import { SIGN_IN_LIFE_MS } from './sign-ins.ts'

/** What linking works with. */
export interface PlatformScope {
  database: Database
  platform: PlatformProvider
}

/** Begins: where the browser goes, and what it carries until it is back. */
export async function beginPlatformLink(
  { database, platform }: PlatformScope,
  accountId: string,
  now: number,
): Promise<{ url: string; browser: string; expiresAt: number }> {
  const [state, browser, expiresAt] = [newText(), newText(), now + SIGN_IN_LIFE_MS]
  await database.rows(
    `INSERT INTO sign_ins (id, kind, state_hash, browser_hash, account_id, begun_at, expires_at)
     VALUES ($1, 'platform', $2, $3, $4, $5, $6)`,
    [crypto.randomUUID(), hashOf(state), hashOf(browser), accountId, new Date(now), new Date(expiresAt)],
  )
  return { url: platform.begin(state), browser, expiresAt }
}

/** Takes a browser back and links the platform account that it is signed in to. */
export async function finishPlatformLink(
  { database, platform }: PlatformScope,
  back: { query: string; state: string; browser: string },
  now: number,
): Promise<{ platformId: string; linkedAt: number }> {
  const [begun] = await database.rows<{ account_id: string }>(
    `UPDATE sign_ins SET returned_at = $3 WHERE state_hash = $1 AND browser_hash = $2 AND kind = 'platform'
     AND returned_at IS NULL AND expires_at > $3 RETURNING account_id`,
    [hashOf(back.state), hashOf(back.browser), new Date(now)],
  )
  if (!begun) {
    const detail = 'This link was not begun in this browser, was used, or took too long; begin again.'
    throw new Refusal('SIGN_IN_REFUSED', detail)
  }
  const outcome = await platform.finish(back.query, back.state, now)
  if (outcome.kind === 'unreachable') throw new Refusal('UPSTREAM_ERROR', 'The platform does not answer; begin again.')
  if (outcome.kind === 'refused') {
    throw new Refusal('SIGN_IN_REFUSED', `The platform did not confirm the sign-in (${outcome.reason}); begin again.`)
  }
  const { platformId } = outcome
  await database.rows(
    `INSERT INTO platform_links (account_id, platform_id, linked_at) VALUES ($1, $2, $3)
     ON CONFLICT (account_id) DO UPDATE SET platform_id = EXCLUDED.platform_id, linked_at = EXCLUDED.linked_at`,
    [begun.account_id, platformId, new Date(now)],
  )
  return { platformId, linkedAt: now }
}

/** Removes the link; refuses when there is none. */
export async function unlinkPlatform(database: Database, accountId: string): Promise<void> {
  const gone = await database.rows('DELETE FROM platform_links WHERE account_id = $1 RETURNING account_id', [accountId])
  if (gone.length === 0) throw new Refusal('NOT_FOUND', 'No platform account is linked.')
}
