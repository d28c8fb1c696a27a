/**
 * The account of the game's platform that is linked to an account.
 *
 * Writes sign_ins and platform_links. States and their rules: sign-in/commands.ts. Invariant: the id of a platform account comes from the
 * platform alone.
 */
import { HttpError } from '#infra/http/http-error.ts'
import type { Database } from '#infra/postgres/pool.ts'
import { type Origin, recordAction, recordAudit } from '../audit/commands.ts'
import { hashOf, lockForOwner, newText, warnOfPlatformChange } from '../commands.ts'
import { claimReturn, type PlatformScope, type Return, refused, SIGN_IN_LIFE_MS } from '../sign-in/commands.ts'

const LINK_REFUSAL = 'This link was not begun in this browser, was used or ended, or took too long; begin again.'

/** Begins: where the browser goes, and what it carries until it is back. */
export async function beginPlatformLink(
  { database, platform }: PlatformScope,
  origin: Origin,
  now: number,
): Promise<{ url: string; browser: string; expiresAt: number }> {
  const [state, browser, expiresAt] = [newText(), newText(), now + SIGN_IN_LIFE_MS]
  await database.transaction(async query => {
    await lockForOwner(query, origin)
    await query(
      `INSERT INTO sign_ins (id, kind, state_hash, browser_hash, account_id, begun_at, expires_at)
       VALUES ($1, 'platform', $2, $3, $4, $5, $6)`,
      [crypto.randomUUID(), hashOf(state), hashOf(browser), origin.accountId, new Date(now), new Date(expiresAt)],
    )
  })
  return { url: platform.begin(state), browser, expiresAt }
}

/** Links the platform account that a browser, which came back, is signed in to. */
export async function finishPlatformLink(
  { database, platform, mail }: PlatformScope,
  back: Return & { address?: string | undefined },
  now: number,
): Promise<{ platformId: string; linkedAt: number }> {
  const begun = await claimReturn(database, 'platform', back, now)
  if (!begun) throw refused(LINK_REFUSAL)
  const outcome = await platform.finish(back.query, back.state, now)
  if (outcome.kind === 'unreachable')
    throw new HttpError('UPSTREAM_ERROR', 'The platform does not answer; begin again.')
  if (outcome.kind === 'refused') {
    throw refused(`The platform did not confirm the sign-in (${outcome.reason}); begin again.`)
  }
  const { platformId } = outcome
  const { id } = begun
  const accountId = begun.accountId as string
  await database.transaction(async query => {
    // The account first, as by all that ends sign-ins, which may have happened while the platform was asked.
    await query('SELECT 1 FROM accounts WHERE id = $1 FOR NO KEY UPDATE', [accountId])
    const claimed = await query(
      'UPDATE sign_ins SET exchanged_at = $2 WHERE id = $1 AND exchanged_at IS NULL RETURNING id',
      [id, new Date(now)],
    )
    if (claimed.length === 0) throw refused(LINK_REFUSAL)
    await query(
      `INSERT INTO platform_links (account_id, platform_id, linked_at) VALUES ($1, $2, $3)
       ON CONFLICT (account_id) DO UPDATE SET platform_id = EXCLUDED.platform_id, linked_at = EXCLUDED.linked_at`,
      [accountId, platformId, new Date(now)],
    )
    await recordAudit(query, { kind: 'platform.linked', at: now, accountId, address: back.address })
    if (mail) await warnOfPlatformChange(query, mail, { accountId, isLinked: true })
  })
  return { platformId, linkedAt: now }
}

/** Removes the link; refuses when there is none. */
export async function unlinkPlatform(
  { database, mail }: Pick<PlatformScope, 'database' | 'mail'>,
  origin: Origin,
  now: number,
): Promise<void> {
  const { accountId } = origin
  await database.transaction(async query => {
    await lockForOwner(query, origin)
    const gone = await query('DELETE FROM platform_links WHERE account_id = $1 RETURNING account_id', [accountId])
    if (gone.length === 0) throw new HttpError('NOT_FOUND', 'No platform account is linked.')
    await recordAction(query, origin, { kind: 'platform.unlinked', at: now })
    if (mail) await warnOfPlatformChange(query, mail, { accountId, isLinked: false })
  })
}

/** Links an account on the game's platform to an account that has none. */
export async function linkPlatformAccount(database: Database, accountId: string, platformId: string): Promise<void> {
  await database.rows(
    'INSERT INTO platform_links (account_id, platform_id, linked_at) VALUES ($1, $2, now()) ON CONFLICT DO NOTHING',
    [accountId, platformId],
  )
}
