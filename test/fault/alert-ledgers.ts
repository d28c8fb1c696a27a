/**
 * Accounts that own alerts, and what became of the alerts, beside what should have: triggers and rules in the log, events in Postgres,
 * requests and mails at the destinations.
 *
 * When alerts may fire on a log of changes, and which must, is found by brute force from DECISIONS.md, "Alerts": each rule is checked after
 * each change of its item. A rule fires once, by prices at which its condition holds. Which of them depends on when the role was there to
 * evaluate, so a rule whose condition holds at the end must have fired, and one whose condition held for a while may have.
 */
import { expect } from 'chai'

import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Database } from '#infra/postgres/pool.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import { openSealedBox } from '#infra/runtime/sealed-box.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import type { NewAlert } from '#services/alerts/rules/commands.ts'
import { createWebhook } from '#services/alerts/webhooks/commands.ts'
import type { Mailbox } from '#test/fixtures/mailbox.ts'
import type { MarketItem } from '#test/fixtures/seeded-market.ts'
import type { Receiver } from '#test/fixtures/webhook-receiver.ts'
import type { LedgerEntry } from '#test/harness/ledger.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import type { SeededRandom } from '#test/harness/seeded-random.ts'

/** An account of the test: its destinations by id, and whether it gets mails. */
interface Owner {
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

interface EventRow {
  id: string
  account_id: string
  alert_id: string
}

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

/** Each destination is to get every event of its account. */
export const hookEntries = (owners: readonly Owner[], events: readonly EventRow[]): LedgerEntry[] =>
  owners.flatMap(({ id, hooks }) =>
    hooks.flatMap((_, index) =>
      events
        .filter(event => event.account_id === id)
        .map(event => ({ key: `${event.id} ${index}`, what: 'delivered' })),
    ),
  )

/** One event under two delivery ids is here twice. */
export function receivedBy({ received }: Receiver): LedgerEntry[] {
  const ids = new Map<string, Set<string>>()
  for (const { path, headers, body } of received) {
    const key = `${JSON.parse(body).id} ${path.slice(1)}`
    ids.set(key, (ids.get(key) ?? new Set()).add(String(headers['x-svc-delivery-id'])))
  }
  return [...ids].flatMap(([key, deliveries]) => [...deliveries].map(() => ({ key, what: 'delivered' })))
}

export async function storedRules(database: Database): Promise<LedgerEntry[]> {
  const rows = await database.rows<{ id: string; version: string; is_enabled: boolean }>(
    'SELECT id, version, is_enabled FROM alerts',
  )
  return rows.map(({ id, version, is_enabled }) => ({ key: id, what: `${version} ${is_enabled}` }))
}

export async function lastRules(kafka: KafkaConnection): Promise<LedgerEntry[]> {
  const last = new Map<string, string>()
  for (const { key, value } of await readTopic(kafka, 'alertRules'))
    last.set(key, `${value.version} ${value.is_enabled}`)
  return [...last].map(([key, what]) => ({ key, what }))
}

export const mailEntries = (owners: readonly Owner[], events: readonly EventRow[]): LedgerEntry[] =>
  events
    .filter(event => owners.some(({ id, getsMail }) => getsMail && id === event.account_id))
    .map(event => ({ key: event.id, what: 'mailed' }))

/** A repeated message once. */
export function mailsOf({ mails }: Mailbox): LedgerEntry[] {
  const ids = mails.map(
    ({ mail }) => /^<alert-([0-9a-f-]{36})@/.exec(mail.messageId ?? '')?.[1] ?? String(mail.messageId),
  )
  return [...new Set(ids)].map(key => ({ key, what: 'mailed' }))
}

/** Attempts are recorded before they leave, so each request that arrived is one of those on record; and all have succeeded. */
export async function expectRecorded(database: Database, { received }: Receiver): Promise<void> {
  const rows = await database.rows<{ id: string; status: string; attempts: number }>(
    `SELECT id, status, (SELECT count(*)::int FROM webhook_attempts WHERE delivery_id = d.id) AS attempts
      FROM webhook_deliveries d UNION ALL SELECT id, status, 1 FROM email_deliveries WHERE status <> 'succeeded'`,
  )
  expect(rows.filter(({ status }) => status !== 'succeeded')).to.deep.equal([])
  const byId = Map.groupBy(received, ({ headers }) => String(headers['x-svc-delivery-id']))
  for (const { id, attempts } of rows)
    expect(byId.get(id)?.length, `requests of ${id}, of which ${attempts} attempts are on record`).to.be.within(
      1,
      attempts,
    )
  expect(byId.size, 'ids at the receivers').to.equal(rows.length)
  console.log(`      ${rows.length} deliveries, ${received.length - rows.length} repeats under their own id`)
}

export function alertNear(random: SeededRandom, { itemId, name, prices }: MarketItem): NewAlert {
  const kind = random.pick(['price_below', 'price_above', 'spread_exceeds'] as const)
  const about = (random.pick(prices) * random.integer(70, 130)) / 10_000
  const threshold = kind === 'spread_exceeds' ? random.integer(100, 3_000) / 100 : Math.max(0.01, about)
  return {
    item_id: itemId,
    kind,
    market_hash_name: name,
    phase: null,
    is_enabled: true,
    threshold_value: threshold.toFixed(2),
    threshold_currency: kind === 'spread_exceeds' ? null : 'USD',
  }
}

/** A rule in dollars, or in percent for a spread; thresholds have two decimals. */
export interface PlainRule {
  id: string
  itemId: number
  kind: 'price_below' | 'price_above' | 'spread_exceeds'
  threshold: string
}

interface WrittenTrigger {
  alert_id: string
  best_ask_micro_usd: number
  best_bid_micro_usd: number | null
  cause: string
  caused_at: number
}

const pricesOf = (trigger: WrittenTrigger): string => `${trigger.best_ask_micro_usd} ${trigger.best_bid_micro_usd}`

/** A trigger as the ledger takes it: keyed by alert, described by the prices when it fired. */
export const entryOfTrigger = (trigger: WrittenTrigger): LedgerEntry => ({
  key: trigger.alert_id,
  what: `${pricesOf(trigger)} ${trigger.caused_at}`,
})

/** The triggers that rules must give: the first that was written, where it may be, else one of each that holds at the end. */
export function expectedTriggers(
  rules: readonly PlainRule[],
  changes: readonly Pick<BookChanged, 'side' | 'provider' | 'item_id' | 'price_micro_usd' | 'seen_at'>[],
  written: readonly WrittenTrigger[],
): LedgerEntry[] {
  const { allowed, isMet } = evaluateAll(rules, changes)
  const first = new Map(written.toReversed().map(trigger => [trigger.alert_id, trigger]))
  return rules.flatMap(({ id: key }) => {
    const trigger = first.get(key)
    if (trigger === undefined) return isMet.has(key) ? [{ key, what: 'holds at the end' }] : []
    const entry = entryOfTrigger(trigger)
    // A rule that is evaluated when its partition is opened names the time of the rule.
    return allowed.get(key)?.has(trigger.cause === 'book' ? entry.what : pricesOf(trigger)) ? [entry] : []
  })
}

/** By rule: the prices at which its condition held, with the time of the change and without; and the rules that hold at the end. */
function evaluateAll(rules: readonly PlainRule[], changes: Parameters<typeof expectedTriggers>[1]) {
  const byItem = Map.groupBy(rules, ({ itemId }) => itemId)
  const rows = new Map<number, Map<string, number>>()
  const allowed = new Map(rules.map(({ id }) => [id, new Set<string>()]))
  const isMet = new Set<string>()
  for (const { side, provider, item_id, price_micro_usd: micro, seen_at } of changes) {
    const quotes = rows.get(item_id) ?? new Map<string, number>()
    rows.set(item_id, quotes)
    if (micro === null) quotes.delete(`${side}|${provider}`)
    else quotes.set(`${side}|${provider}`, micro)
    const of = (wanted: string) => [...quotes].filter(([key]) => key.startsWith(wanted)).map(([, price]) => price)
    const [asks, bids] = [of('ask'), of('bid')]
    const [ask, bid] = [Math.min(...asks), bids.length === 0 ? null : Math.max(...bids)]
    for (const rule of byItem.get(item_id) ?? []) {
      isMet.delete(rule.id)
      if (asks.length === 0 || !holds(rule, ask, bid)) continue
      isMet.add(rule.id)
      allowed.get(rule.id)?.add(`${ask} ${bid}`).add(`${ask} ${bid} ${seen_at}`)
    }
  }
  return { allowed, isMet }
}

function holds({ kind, threshold }: PlainRule, ask: number, bid: number | null): boolean {
  const hundredths = BigInt(threshold.replace('.', ''))
  if (kind === 'price_below') return BigInt(ask) < hundredths * 10_000n
  if (kind === 'price_above') return BigInt(ask) > hundredths * 10_000n
  return bid !== null && BigInt(ask - bid) * 10_000n > hundredths * BigInt(ask)
}
