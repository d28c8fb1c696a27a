/**
 * Alerts: created, changed and deleted by their account.
 *
 * Writes alerts and, in the same transaction, the outbox. States: enabled <-> disabled, any -> deleted; firing
 * (trigger-applier.ts) leads from enabled to disabled. Invariant: the account's row is locked first, so it never has
 * more alerts than its tier allows, enabled ones or in all; an alert is enabled only while the account has a channel; every
 * change raises the version; another account's alert is not found. An outbox row's id is drawn while its alert's row is locked, so the
 * rows of one alert ascend in the order of its changes; outbox-relay.ts deletes what the log holds.
 */
import { HttpError } from '#infra/http/http-error.ts'
import { countRows, type Database, insertRows, type Query } from '#infra/postgres/pool.ts'
import { openUuidSource } from '#infra/runtime/uuid-v7.ts'
import type { AlertRuleChanged } from '#schemas/events/alert-rule-changed.ts'
import { topics } from '#schemas/topics.ts'
import { type LockedAccount, lockAccount } from '#services/accounts/commands.ts'
import { ALERT_COLUMNS, type StoredAlert } from './reader.ts'

export type NewAlert = Pick<
  StoredAlert,
  'item_id' | 'market_hash_name' | 'phase' | 'kind' | 'threshold_value' | 'threshold_currency' | 'is_enabled'
>

/** The limits and the moment of a change. */
export interface AlertTerms {
  /** Enabled alerts that the account may have. */
  most: number
  /** Alerts that it may have, disabled ones too: each is stored, searched and sent to the log. */
  mostInAll: number
  now: number
}

const newId = openUuidSource()

const UPDATE = `UPDATE alerts SET threshold_value = $2::numeric, threshold_currency = $3, is_enabled = $4,
    version = version + 1, updated_at = $5
  WHERE id = $1 RETURNING ${ALERT_COLUMNS}`

/** Creates alerts, all or none; in the order given, which their ids keep. */
export function createAlerts(
  database: Database,
  accountId: string,
  alerts: readonly NewAlert[],
  { most, mostInAll, now }: AlertTerms,
): Promise<StoredAlert[]> {
  return database.transaction(async query => {
    const account = await lockAccount(query, accountId)
    await requireQuota(query, accountId, { more: alerts.length, most: mostInAll, ofEnabled: false })
    const enabled = alerts.filter(({ is_enabled }) => is_enabled).length
    if (enabled > 0) {
      await requireChannel(query, accountId, account)
      await requireQuota(query, accountId, { more: enabled, most, ofEnabled: true })
    }
    const at = new Date(now)
    const created = await insertRows<StoredAlert>(
      query,
      'alerts',
      `id, account_id, item_id, market_hash_name, phase, kind, threshold_value, threshold_currency, is_enabled, version, created_at,
        updated_at`,
      alerts.map(alert => ({
        ...alert,
        id: newId(now),
        account_id: accountId,
        version: 1,
        created_at: at,
        updated_at: at,
      })),
      `RETURNING ${ALERT_COLUMNS}`,
    )
    await appendToOutbox(query, created)
    return created
  })
}

type AlertChanges = {
  [name in 'threshold_value' | 'threshold_currency' | 'is_enabled']?: StoredAlert[name] | undefined
}

/** Changes an alert: what is left out stays, a currency has no effect on spreads, and enabling passes the checks of creation. */
export function changeAlert(
  database: Database,
  accountId: string,
  alertId: string,
  { changes, most, now }: Omit<AlertTerms, 'mostInAll'> & { changes: AlertChanges },
): Promise<StoredAlert> {
  return database.transaction(async query => {
    const account = await lockAccount(query, accountId)
    const before = await lockAlert(query, accountId, alertId)
    const isEnabled = changes.is_enabled ?? before.is_enabled
    if (isEnabled && !before.is_enabled) {
      await requireChannel(query, accountId, account)
      await requireQuota(query, accountId, { more: 1, most, ofEnabled: true })
    }
    const currency = before.threshold_currency && (changes.threshold_currency ?? before.threshold_currency)
    const values = [alertId, changes.threshold_value ?? before.threshold_value, currency, isEnabled, new Date(now)]
    const [changed] = await query<StoredAlert>(UPDATE, values)
    await appendToOutbox(query, [changed as StoredAlert])
    return changed as StoredAlert
  })
}

/** Deletes an alert for good; its events stay. */
export function deleteAlert(database: Database, accountId: string, alertId: string): Promise<void> {
  return database.transaction(async query => {
    await lockAlert(query, accountId, alertId)
    await query(remove('account_id = $1 AND id = $3'), [accountId, topics.alertRules.name, alertId])
  })
}

/** Deletes all alerts of an account and their events within the transaction of `query`; the log gets a tombstone for each alert. */
export async function removeAlerts(query: Query, accountId: string): Promise<void> {
  await query('DELETE FROM alert_events WHERE account_id = $1', [accountId])
  await query(remove('account_id = $1'), [accountId, topics.alertRules.name])
}

const remove = (
  condition: string,
): string => `WITH gone AS (DELETE FROM alerts WHERE ${condition} RETURNING id, item_id)
  INSERT INTO outbox (topic, key, partition_key) SELECT $2, id, item_id FROM gone`

/** Appends the new states of alerts to the outbox; runs in the transaction that changed them. */
export async function appendToOutbox(query: Query, alerts: readonly StoredAlert[]): Promise<void> {
  const rows = alerts.map(({ id, account_id, item_id, kind, threshold_value, threshold_currency, ...alert }) => {
    const { is_enabled, version, updated_at } = alert
    const payload: AlertRuleChanged = {
      alert_id: id,
      account_id,
      item_id,
      kind,
      threshold_value,
      threshold_currency,
      is_enabled,
      version,
      changed_at: Date.parse(updated_at),
    }
    return { topic: topics.alertRules.name, key: id, partition_key: item_id, payload }
  })
  await insertRows(query, 'outbox', 'topic, key, partition_key, payload', rows)
}

/** An enabled alert needs a verified e-mail with alert e-mails on, or an active webhook destination of a quant account. */
async function requireChannel(query: Query, accountId: string, account: LockedAccount): Promise<void> {
  const { tier, hasEmail, isEmailVerified, wantsAlertEmails } = account
  if (isEmailVerified && wantsAlertEmails) return
  if (tier === 'quant') {
    const webhooks = await query('SELECT 1 FROM webhooks WHERE account_id = $1 AND is_active LIMIT 1', [accountId])
    if (webhooks.length > 0) return
  }
  if (hasEmail && !isEmailVerified) {
    throw new HttpError('EMAIL_NOT_VERIFIED', 'Enabled alerts need a verified e-mail address; see POST /account/email.')
  }
  const detail = 'Enabled alerts need a verified e-mail address with alert e-mails on, or (quant) an active webhook.'
  throw new HttpError('NO_DELIVERY_CHANNEL', detail)
}

async function requireQuota(
  query: Query,
  accountId: string,
  { more, most, ofEnabled }: { more: number; most: number; ofEnabled: boolean },
): Promise<void> {
  const total = await countRows(query, `alerts WHERE account_id = $1 ${ofEnabled ? 'AND is_enabled' : ''}`, [accountId])
  if (total + more <= most) return
  const detail = ofEnabled
    ? `This tier has ${most} enabled alerts at most; ${total} are enabled. Disable or delete some first.`
    : `This tier has ${most} alerts at most, disabled ones too; there are ${total}. Delete some first.`
  throw new HttpError('ALERT_LIMIT_REACHED', detail)
}

async function lockAlert(query: Query, accountId: string, alertId: string): Promise<StoredAlert> {
  const [alert] = await query<StoredAlert>(
    `SELECT ${ALERT_COLUMNS} FROM alerts WHERE id = $1 AND account_id = $2 FOR UPDATE`,
    [alertId, accountId],
  )
  if (!alert) throw new HttpError('ALERT_NOT_FOUND', 'This account has no alert with this id.')
  return alert
}
