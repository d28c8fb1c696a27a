/**
 * Alerts: created, changed and deleted by their account.
 *
 * Writes alerts and, in the same transaction, the outbox. States: enabled <-> disabled, any -> deleted; firing
 * (trigger-applier.ts) leads from enabled to disabled. Invariant: the account's row is locked first, so it never has
 * more alerts than its tier allows, enabled ones or in all; an alert is enabled only while the account has a channel; every
 * change raises the version; another account's alert is not found.
 */
import { HttpError } from '#infra/http/http-error.ts'
import type { Database, Query } from '#infra/postgres/pool.ts'
import { openUuidSource } from '#infra/runtime/uuid-v7.ts'
import { topics } from '#schemas/topics.ts'
import { type LockedAccount, lockAccount } from '#services/accounts/commands.ts'
import { appendToOutbox, outboxEntryOf } from './outbox.ts'
import { ALERT_COLUMNS, type AlertRow, alertOfRow, type StoredAlert } from './reader.ts'

/** An alert to be created. */
export type NewAlert = Pick<
  StoredAlert,
  'itemId' | 'marketHashName' | 'phase' | 'kind' | 'thresholdValue' | 'thresholdCurrency' | 'isEnabled'
>

/** What an alert may be given; what is left out stays. */
interface AlertChanges {
  thresholdValue?: string
  /** Of no effect on spreads. */
  thresholdCurrency?: string
  isEnabled?: boolean
}

/** What holds for a change. */
export interface AlertTerms {
  /** Enabled alerts that the account may have. */
  most: number
  /** Alerts that it may have, disabled ones too: each is stored, searched and sent to the log. */
  mostInAll: number
  now: number
}

const newId = openUuidSource()

const INSERT = `INSERT INTO alerts AS a (id, account_id, item_id, market_hash_name, phase, kind, threshold_value,
    threshold_currency, is_enabled, version, created_at, updated_at)
  SELECT id, $1, item_id, name, phase, kind, value, currency, enabled, 1, $2, $2
  FROM unnest($3::uuid[], $4::int[], $5::text[], $6::text[], $7::text[], $8::numeric[], $9::text[], $10::boolean[])
    AS n(id, item_id, name, phase, kind, value, currency, enabled)
  RETURNING ${ALERT_COLUMNS}`

const UPDATE = `UPDATE alerts a SET threshold_value = $2::numeric, threshold_currency = $3, is_enabled = $4,
    version = a.version + 1, updated_at = $5
  WHERE a.id = $1 RETURNING ${ALERT_COLUMNS}`

/** Creates alerts, all or none; in the order given, which their ids keep. */
export function createAlerts(
  database: Database,
  accountId: string,
  alerts: readonly NewAlert[],
  { most, mostInAll, now }: AlertTerms,
): Promise<StoredAlert[]> {
  return database.transaction(async query => {
    const account = await lockAccount(query, accountId)
    await requireRoom(query, accountId, { more: alerts.length, most: mostInAll, ofEnabled: false })
    const enabled = alerts.filter(({ isEnabled }) => isEnabled).length
    if (enabled > 0) {
      await requireChannel(query, accountId, account)
      await requireRoom(query, accountId, { more: enabled, most, ofEnabled: true })
    }
    const ids = alerts.map(() => newId(now))
    const rows = await query<AlertRow>(INSERT, [
      ...[accountId, new Date(now), ids],
      ...[alerts.map(one => one.itemId), alerts.map(one => one.marketHashName), alerts.map(one => one.phase)],
      ...[alerts.map(one => one.kind), alerts.map(one => one.thresholdValue)],
      ...[alerts.map(one => one.thresholdCurrency), alerts.map(one => one.isEnabled)],
    ])
    const created = rows.map(alertOfRow).sort((one, other) => (one.id < other.id ? -1 : 1))
    await appendToOutbox(query, created.map(outboxEntryOf))
    return created
  })
}

/** Changes an alert; enabling passes the checks of creation. */
export function changeAlert(
  database: Database,
  accountId: string,
  alertId: string,
  { changes, most, now }: Omit<AlertTerms, 'mostInAll'> & { changes: AlertChanges },
): Promise<StoredAlert> {
  return database.transaction(async query => {
    const account = await lockAccount(query, accountId)
    const before = await lockAlert(query, accountId, alertId)
    const isEnabled = changes.isEnabled ?? before.isEnabled
    if (isEnabled && !before.isEnabled) {
      await requireChannel(query, accountId, account)
      await requireRoom(query, accountId, { more: 1, most, ofEnabled: true })
    }
    const currency = before.thresholdCurrency && (changes.thresholdCurrency ?? before.thresholdCurrency)
    const values = [alertId, changes.thresholdValue ?? before.thresholdValue, currency, isEnabled, new Date(now)]
    const [row] = await query<AlertRow>(UPDATE, values)
    const changed = alertOfRow(row as AlertRow)
    await appendToOutbox(query, [outboxEntryOf(changed)])
    return changed
  })
}

/** Deletes an alert for good; its events stay. */
export function deleteAlert(database: Database, accountId: string, alertId: string): Promise<void> {
  return database.transaction(async query => {
    const { itemId } = await lockAlert(query, accountId, alertId)
    await query('DELETE FROM alerts WHERE id = $1', [alertId])
    await appendToOutbox(query, [{ alertId, itemId, changed: null }])
  })
}

/** Deletes all alerts of an account and their events within the transaction of `query`; the log hears of each alert. */
export async function removeAlerts(query: Query, accountId: string): Promise<void> {
  await query('DELETE FROM alert_events WHERE account_id = $1', [accountId])
  await query(
    `WITH gone AS (DELETE FROM alerts WHERE account_id = $1 RETURNING id, item_id)
     INSERT INTO outbox (topic, key, partition_key) SELECT $2, id, item_id FROM gone`,
    [accountId, topics.alertRules.name],
  )
}

/** What an enabled alert needs: a verified e-mail with alert e-mails on, or an active webhook destination of a quant account. */
async function requireChannel(query: Query, accountId: string, account: LockedAccount): Promise<void> {
  const { tier, hasEmail, isEmailVerified, wantsAlertEmails } = account
  if (isEmailVerified && wantsAlertEmails) return
  if (tier === 'quant' && (await hasActiveWebhook(query, accountId))) return
  if (hasEmail && !isEmailVerified) {
    throw new HttpError('EMAIL_NOT_VERIFIED', 'Enabled alerts need a verified e-mail address; see POST /account/email.')
  }
  const detail = 'Enabled alerts need a verified e-mail address with alert e-mails on, or (quant) an active webhook.'
  throw new HttpError('NO_DELIVERY_CHANNEL', detail)
}

async function hasActiveWebhook(query: Query, accountId: string): Promise<boolean> {
  const [webhook] = await query<{ id: string }>('SELECT id FROM webhooks WHERE account_id = $1 AND is_active LIMIT 1', [
    accountId,
  ])
  return webhook !== undefined
}

async function requireRoom(
  query: Query,
  accountId: string,
  { more, most, ofEnabled }: { more: number; most: number; ofEnabled: boolean },
): Promise<void> {
  const [count] = await query<{ total: number }>(
    `SELECT count(*)::int AS total FROM alerts WHERE account_id = $1 ${ofEnabled ? 'AND is_enabled' : ''}`,
    [accountId],
  )
  const total = count?.total ?? 0
  if (total + more <= most) return
  const detail = ofEnabled
    ? `This tier has ${most} enabled alerts at most; ${total} are enabled. Disable or delete some first.`
    : `This tier has ${most} alerts at most, disabled ones too; there are ${total}. Delete some first.`
  throw new HttpError('ALERT_LIMIT_REACHED', detail)
}

async function lockAlert(query: Query, accountId: string, alertId: string): Promise<StoredAlert> {
  const [row] = await query<AlertRow>(
    `SELECT ${ALERT_COLUMNS} FROM alerts a WHERE a.id = $1 AND a.account_id = $2 FOR UPDATE`,
    [alertId, accountId],
  )
  if (!row) throw new HttpError('ALERT_NOT_FOUND', 'This account has no alert with this id.')
  return alertOfRow(row)
}
