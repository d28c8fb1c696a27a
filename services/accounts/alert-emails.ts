/**
 * Whether an account wants its alerts by e-mail.
 *
 * Writes accounts.alert_emails_off_at. A repeat changes nothing.
 */
import type { Query } from '#infra/postgres/pool.ts'

/** Switches alerts by e-mail on or off; false when there is no such account. */
export async function setAlertEmails(
  query: Query,
  accountId: string,
  { isOn, now }: { isOn: boolean; now: number },
): Promise<boolean> {
  const changed = await query(
    `UPDATE accounts SET alert_emails_off_at = CASE WHEN $2 THEN NULL ELSE coalesce(alert_emails_off_at, $3) END
      WHERE id = $1 RETURNING id`,
    [accountId, isOn, new Date(now)],
  )
  return changed.length > 0
}
