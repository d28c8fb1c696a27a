/**
 * What the roles beside the book write: sales, providers' health, exchange rates, the market's summary. What should be there comes from
 * the marketplaces or from the reference fold, and shares no code with the streams.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { StoredHealth } from '#streams/provider-health/table.ts'
import { healthKeyNow } from '#test/fixtures/redis-views.ts'
import { type Ledger, type LedgerEntry, openLedger } from '#test/harness/ledger.ts'
import type { PublishedRefresh } from '#test/harness/published-records.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import { bookKey, type Expected } from '#test/harness/reference-fold.ts'
import { dollars } from '#test/oracles/exact-amounts.ts'
import { ratesInForce } from '#test/oracles/rates-in-force.ts'
import { digestOf, editionOf, type ServedEdition, type ServedSale } from './marketplaces.ts'
import { liveLedgers, tableLedgers } from './view-ledgers.ts'

const ANSWER_LIMIT_MS = 60_000

export function editionLedger(served: readonly ServedEdition[], refreshes: readonly PublishedRefresh[]): Ledger {
  const came = refreshes
    .filter(({ ending }) => ending === 'completed')
    .map(({ side, provider, entries }) => {
      const edition = editionOf(entries.at(-1)?.name ?? '')
      return { key: bookKey(side, provider), what: `${edition} ${digestOf(entries.slice(0, -1))}` }
    })
  const last = new Map(served.map(({ key, edition, digest }) => [key, `${edition} ${digest}`]))
  // The last edition is served again and again; the log need not hold every one of the others.
  const once = came.filter(({ key, what }, at) => what !== last.get(key) || at === firstOf(came, key, what))
  const held = new Set(came.map(({ key, what }) => `${key} ${what}`))
  const wanted = served
    .map(({ key, edition, digest }) => ({ key, what: `${edition} ${digest}` }))
    .filter(({ key, what }) => held.has(`${key} ${what}`) || what === last.get(key))
  return openLedger(wanted, once)
}

const firstOf = (entries: readonly LedgerEntry[], key: string, what: string): number =>
  entries.findIndex(entry => entry.key === key && entry.what === what)

async function salesLedgers(
  reader: ClickhouseReader,
  served: readonly Omit<ServedSale, 'name'>[],
): Promise<Record<string, Ledger>> {
  const wanted = served.map(({ provider, sale_id, itemId, price, currency, sold_at }) => ({
    key: sale_id,
    what: [provider, itemId, price, currency, sold_at].join(' '),
  }))
  const ledgers: Record<string, Ledger> = {}
  for (const table of ['sales', 'sales_by_time']) {
    const rows = await reader.rows<Record<string, unknown>>(
      `SELECT sale_id, provider, item_id, price, currency, toUnixTimestamp64Milli(sold_at) AS at
      FROM ${reader.database}.${table} FINAL`,
    )
    const came = rows.map(row => Object.values(row)).map(([key, ...rest]) => ({ key: `${key}`, what: rest.join(' ') }))
    ledgers[`table ${table}`] = openLedger(wanted, came)
  }
  return ledgers
}

async function healthLedger(
  redis: Redis,
  prefix: string,
  { refreshes, expected: { verdicts } }: ViewedMarket,
): Promise<Ledger> {
  const wanted = new Map<string, { completed: number | null; failures: number; reason: string | null }>()
  for (const [at, { side, provider, observedAt, ending = 'completed' }] of refreshes.entries()) {
    if (ending === 'cut') continue
    const key = bookKey(side, provider)
    const health = wanted.get(key) ?? { completed: null, failures: 0, reason: null }
    const { verdict, reason } = verdicts[at] ?? { verdict: undefined, reason: null }
    if (ending === 'failed' || verdict === 'failed' || verdict === 'incomplete') health.failures += 1
    else if (verdict === 'quarantined') health.reason = reason
    else if (verdict === 'applied') Object.assign(health, { completed: observedAt, failures: 0, reason: null })
    wanted.set(key, health)
  }
  const stored = Object.entries(await redis.hgetall(await healthKeyNow(redis, prefix)))
  const came = stored.flatMap(([provider, text]) =>
    Object.entries((JSON.parse(text) as StoredHealth).sides).map(([side, one]) => ({
      key: `${side}|${provider}`,
      what: [one.completed_at, one.failures, one.quarantined_reason].join(' '),
    })),
  )
  return openLedger(
    [...wanted].map(([key, { completed, failures, reason }]) => ({
      key,
      what: [completed, failures, reason].join(' '),
    })),
    came,
  )
}

interface ViewedMarket {
  /** Those that have no ending are completed. */
  refreshes: readonly (Pick<PublishedRefresh, 'side' | 'provider' | 'observedAt'> &
    Partial<Pick<PublishedRefresh, 'ending'>>)[]
  expected: Expected
  sales: readonly Omit<ServedSale, 'name'>[]
}

/** Every stored view of a market beside the fold of its refreshes, its sales and its rates. */
export async function marketLedgers(
  kafka: KafkaConnection,
  { redis, tables }: { redis: Redis; tables: ClickhouseReader },
  market: ViewedMarket,
  isKilled?: boolean,
): Promise<Record<string, Ledger>> {
  const { namespace } = kafka
  return {
    ...(await liveLedgers(redis, namespace, market.expected, isKilled)),
    ...(await tableLedgers(tables, market.expected)),
    ...(await salesLedgers(tables, market.sales)),
    'provider health': await healthLedger(redis, namespace, market),
    'exchange rates': await ratesLedger(tables, kafka),
  }
}

async function ratesLedger(tables: ClickhouseReader, kafka: KafkaConnection): Promise<Ledger> {
  const last = (await readTopic(kafka, 'fx')).at(-1)
  const rates = (from: { as_of: number; rates: Record<string, string> } | undefined): LedgerEntry[] =>
    Object.entries(from?.rates ?? {}).map(([key, rate]) => ({ key, what: `${from?.as_of} ${rate}` }))
  return openLedger(rates(last?.value), rates(await ratesInForce(tables)))
}

interface SummaryRow {
  item_id: number
  summary: { best_ask_usd: string | null; best_bid_usd: string | null; provider_count: number }
}

/** The market's summary as the API answers it; undefined while it answers none. */
export async function readSummary(
  base: string,
  key: string,
): Promise<{ asOf: number; items: readonly SummaryRow[] } | undefined> {
  const answer = await fetch(`${base}/v1/market/items`, {
    headers: { authorization: `Bearer ${key}` },
    signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
  })
  if (answer.status !== 200) return undefined
  const { meta, data } = (await answer.json()) as { meta: { generated_at: string }; data: { items: SummaryRow[] } }
  return { asOf: Date.parse(meta.generated_at), items: data.items }
}

export function summaryLedger(items: readonly SummaryRow[], { books }: Expected): Ledger {
  const wanted = new Map<number, { ask: number | null; bid: number | null; providers: number }>()
  for (const [key, rows] of books) {
    for (const [itemId, { price_micro_usd: micro }] of rows) {
      const item = wanted.get(itemId) ?? { ask: null, bid: null, providers: 0 }
      wanted.set(itemId, item)
      if (key.startsWith('ask')) {
        item.providers += 1
        item.ask = Math.min(micro, item.ask ?? micro)
      } else item.bid = Math.max(micro, item.bid ?? micro)
    }
  }
  const came = items.filter(({ summary }) => summary.provider_count > 0 || summary.best_bid_usd !== null)
  const usd = (micro: number | null): string | null => (micro === null ? null : dollars(micro))
  return openLedger(
    [...wanted].map(([itemId, { ask, bid, providers }]) => ({
      key: `${itemId}`,
      what: [usd(ask), usd(bid), providers].join(' '),
    })),
    came.map(({ item_id, summary }) => ({
      key: `${item_id}`,
      what: [summary.best_ask_usd, summary.best_bid_usd, summary.provider_count].join(' '),
    })),
  )
}
