/**
 * Accounts that own alerts, and what became of the alerts, beside what should have: events in Postgres, requests at the destinations, rules in the log.
 *
 * Reads Postgres, Kafka and receivers. Invariant: one event under two delivery ids, or one alert with two events, is
 * two entries here, however equal they look.
 */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Database } from '#infra/postgres/pool.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import { openSealedBox } from '#infra/runtime/sealed-box.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import { createWebhook } from '#services/alerts/webhooks/commands.ts'
import type { Receiver } from '#test/fixtures/webhook-receiver.ts'
import type { LedgerEntry } from '#test/harness/ledger.ts'
import { readTopic } from '#test/harness/read-topic.ts'

/** An account of the test: its destinations by id, and whether it gets mails. */
export interface Owner {
  id: string
  hooks: string[]
  getsMail: boolean
}

/** Creates an account whose alerts reach some destinations and no mailbox, or its mailbox alone where there is none. */
export async function openOwner(
  database: Database,
  { secretKey = '' }: PlatformConfig,
  urls: readonly string[],
): Promise<Owner> {
  const { account_id: id, key_id: keyId } = await createAccountWithKey(database, { tier: 'quant' })
  if (urls.length > 0) await database.rows('UPDATE accounts SET alert_emails_off_at = now() WHERE id = $1', [id])
  const box = openSealedBox(secretKey)
  const hooks: string[] = []
  for (const url of urls) {
    const body = { label: 'test', url, platform: 'custom', is_active: true } as const
    const made = await database.transaction(query =>
      createWebhook(query, { accountId: id, keyId, now: Date.now() }, body, box),
    )
    hooks.push(made.id)
  }
  return { id, hooks, getsMail: urls.length === 0 }
}

/** An event of an alert, as its table has it. */
export interface EventRow {
  id: string
  account_id: string
  alert_id: string
}

/** All events. */
export const eventRows = (database: Database): Promise<EventRow[]> =>
  database.rows<EventRow>('SELECT id, account_id, alert_id FROM alert_events')

const countOf = async (database: Database, statement: string): Promise<number> =>
  (await database.rows<{ count: number }>(`SELECT count(*)::int AS count FROM ${statement}`))[0]?.count ?? 0

/** Changes of rules that the log lacks. */
export const rulesToRelay = (database: Database): Promise<number> => countOf(database, 'outbox')

/** Deliveries and jobs that have not come to their end. */
export const deliveriesLeft = async (database: Database): Promise<number> =>
  (await countOf(database, `webhook_deliveries WHERE status = 'pending'`)) +
  (await countOf(database, `email_deliveries WHERE status = 'pending'`)) +
  (await countOf(database, 'graphile_worker.jobs WHERE attempts < max_attempts'))

/** What each destination is to get: every event of its account. */
export const hookEntries = (owners: readonly Owner[], events: readonly EventRow[]): LedgerEntry[] =>
  owners.flatMap(({ id, hooks }) =>
    hooks.flatMap((_, index) =>
      events
        .filter(event => event.account_id === id)
        .map(event => ({ key: `${event.id} ${index}`, what: 'delivered' })),
    ),
  )

/** What the destinations got; one event under two delivery ids is here twice. */
export function receivedBy(receivers: readonly Receiver[]): LedgerEntry[] {
  const ids = new Map<string, Set<string>>()
  for (const { path, headers, body } of receivers.flatMap(({ received }) => received)) {
    const key = `${JSON.parse(body).id} ${path.slice(1)}`
    ids.set(key, (ids.get(key) ?? new Set()).add(String(headers['x-svc-delivery-id'])))
  }
  return [...ids].flatMap(([key, deliveries]) => [...deliveries].map(() => ({ key, what: 'delivered' })))
}

/** Each alert as its table has it. */
export async function storedRules(database: Database): Promise<LedgerEntry[]> {
  const rows = await database.rows<{ id: string; version: string; is_enabled: boolean }>(
    'SELECT id, version, is_enabled FROM alerts',
  )
  return rows.map(({ id, version, is_enabled }) => ({ key: id, what: `${version} ${is_enabled}` }))
}

/** Each alert as the last record of its key has it. */
export async function lastRules(kafka: KafkaConnection): Promise<LedgerEntry[]> {
  const last = new Map<string, string>()
  for (const { key, value } of await readTopic(kafka, 'alertRules'))
    last.set(key, `${value.version} ${value.is_enabled}`)
  return [...last].map(([key, what]) => ({ key, what }))
}
