/**
 * All that routes read and call. A view that cannot be read is a 503, never an empty or unconverted answer.
 */
import type { Request } from 'express'
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { ProviderRegistry } from '#infra/config/providers.ts'
import type { Tier, TierLimits } from '#infra/config/tiers.ts'
import type { Credential } from '#infra/http/credential.ts'
import { HttpError } from '#infra/http/http-error.ts'
import type { Database } from '#infra/postgres/pool.ts'
import type { ViewStore } from '#infra/redis/redis.ts'
import type { RequestMeter } from '#infra/redis/request-meter.ts'
import type { StreamPermits } from '#infra/redis/stream-permits.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import type { SealedBox } from '#infra/runtime/sealed-box.ts'
import type { AnswerCurrency } from '#schemas/api/entry-text.ts'
import type { ErrorCode } from '#schemas/api/error.ts'
import type { MoversQuery } from '#schemas/api/movers.ts'
import type { RefusesUrl } from '#schemas/api/webhooks.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import type { Instant } from '#schemas/values/instant.ts'
import { USD_RATE } from '#schemas/values/money.ts'
import type { KeyDirectory } from '#services/accounts/access/reader.ts'
import type { Origin } from '#services/accounts/audit/commands.ts'
import type { UnsubscribeLinks } from '#services/accounts/reader.ts'
import type { openSignIn } from '#services/accounts/sign-in/commands.ts'
import type { Inventories } from '#services/inventory/reader.ts'
import type { PortfolioStore } from '#services/portfolios/commands.ts'
import { type FxReader, type RateAt, readDayRates } from '#streams/fx/reader.ts'
import type { LiveReader } from '#streams/live-view/reader.ts'
import { openMarketViews } from '#streams/market-summary/reader.ts'
import { openMoversReader } from '#streams/movers/reader.ts'
import { openHealthReader } from '#streams/provider-health/reader.ts'
import type { Cursors } from './cursors.ts'
import type { SnapshotStreams } from './snapshot-streams.ts'
import type { AccountBudget, LongWork } from './work-limits.ts'

export interface ApiContext extends ComputedViews, ReturnType<typeof openSignIn> {
  registry: ProviderRegistry
  catalog: CatalogReader
  tiers: Record<Tier, TierLimits>
  fx: FxRates
  live: LiveView
  clickhouse: ClickhouseReader
  snapshotStreams: SnapshotStreams
  streamPermits: StreamPermits
  database: Database
  /** Of lists, searches and files, which must not keep writes waiting. */
  reads: Database
  /** Whose statements may take as long as it takes to delete the largest account. */
  deletions: Database
  longWork: LongWork
  budget: AccountBudget
  store: PortfolioStore
  keys: Pick<KeyDirectory, 'authenticate' | 'forget'>
  cursors: Cursors
  /** Of stored secrets; undefined without a key of the environment, as are the links. */
  box: SealedBox | undefined
  unsubscribeLinks: UnsubscribeLinks | undefined
  /** Of the game's platform; undefined: this service is connected to none. */
  inventories: Inventories | undefined
  /** Recognizes URLs that no webhook may have. */
  refusesUrl: RefusesUrl
  /** The address that a request comes from, behind the proxies that are trusted. */
  clientOf(request: Request): string | undefined
  /** Public root of the API, without a trailing slash. */
  baseUrl: string
  /** Milliseconds since the epoch. */
  now(): number
}

/** The account behind a request and its address, as the audit log keeps them. */
export const originOf = (
  { clientOf }: ApiContext,
  { credential: { accountId, keyId, sessionId }, request }: { credential: Credential; request: Request },
): Origin => ({ accountId, keyId, sessionId, address: clientOf(request) })

async function orUnavailable<T>(read: Promise<T>, detail: string, code: ErrorCode = 'SERVICE_UNAVAILABLE'): Promise<T> {
  try {
    return await read
  } catch (cause) {
    throw new HttpError(code, detail, { cause })
  }
}

const STORED_PRICES = 'Stored prices and sales are temporarily unavailable.'

/** ClickHouse as requests read it. */
export const openStoredPrices = (reader: ClickhouseReader): ClickhouseReader => ({
  ...reader,
  rows: <T>(...query: Parameters<ClickhouseReader['rows']>) => orUnavailable(reader.rows<T>(...query), STORED_PRICES),
  columns: <C extends object>(...query: Parameters<ClickhouseReader['columns']>) =>
    orUnavailable(reader.columns<C>(...query), STORED_PRICES),
})

type ComputedViews = ReturnType<typeof openComputedViews>

/** Figures of the market, of providers and of the use of keys, in Redis. */
export function openComputedViews(store: ViewStore, meter: Pick<RequestMeter, 'monthOf'>) {
  const health = openHealthReader(store.redis, store.prefix)
  const { arbitrage, summary } = openMarketViews(store)
  const movers = openMoversReader(store)
  const readMovers = async (window: MoversQuery['window']) => {
    const newest = await movers()
    return newest && { ...newest, rows: await newest.rows(window) }
  }
  const uncounted = 'Requests cannot be counted at the moment; try again with a growing delay.'
  return {
    readHealth: () => orUnavailable(health.read(), 'Provider health is temporarily unavailable.'),
    readArbitrage: () => orUnavailable(arbitrage(), NO_ARBITRAGE),
    readSummary: async () => {
      const view = await orUnavailable(summary(), NO_SUMMARY)
      if (!view) throw new HttpError('SERVICE_UNAVAILABLE', NO_SUMMARY)
      return view
    },
    readMovers: (window: MoversQuery['window']) => orUnavailable(readMovers(window), NO_MOVERS),
    /** Counted requests of the month, by the lineage of a key. */
    readUse: (lineageIds: readonly string[]) => orUnavailable(meter.monthOf(lineageIds), uncounted),
  }
}

export const NO_ARBITRAGE = 'No current arbitrage snapshot is available; retry in a few seconds.'
export const NO_MOVERS = 'No current movers are available; retry in a few seconds.'
const NO_SUMMARY = 'The market summary is temporarily unavailable.'

export type LiveView = Pick<LiveReader, 'listing' | 'pinSnapshot'> & {
  ofItems(...read: Parameters<LiveReader['ofItems']>): Promise<Awaited<ReturnType<LiveReader['ofItems']>>>
}

const UNAVAILABLE: Record<Side, { code: ErrorCode; index: string; snapshot: string }> = {
  ask: {
    code: 'PRICES_INDEX_UNAVAILABLE',
    index: 'The live price index is temporarily unavailable.',
    snapshot: 'The snapshot of live prices is temporarily unavailable.',
  },
  bid: {
    code: 'BIDS_INDEX_UNAVAILABLE',
    index: 'The live bids index is temporarily unavailable.',
    snapshot: 'The snapshot of live bids is temporarily unavailable.',
  },
}

/** The 503 of a side's bulk snapshot. */
export const snapshotUnavailable = (side: Side, cause?: unknown): HttpError =>
  new HttpError(UNAVAILABLE[side].code, UNAVAILABLE[side].snapshot, { cause })

/** The live view as requests read it. */
export function openLiveView(reader: LiveReader): LiveView {
  const orSide = <T>(side: Side, read: Promise<T>): Promise<T> =>
    orUnavailable(read, UNAVAILABLE[side].index, UNAVAILABLE[side].code)
  return {
    ofItems: (side, itemIds) => orSide(side, Promise.resolve(reader.ofItems(side, itemIds))),
    listing: (side, ...page) => orSide(side, reader.listing(side, ...page)),
    pinSnapshot: (side, providers) =>
      reader.pinSnapshot(side, providers).catch(cause => {
        throw snapshotUnavailable(side, cause)
      }),
  }
}

/** The rates in force, for requests. */
export interface FxRates extends FxReader {
  /** Whether a request may name this code; without a table any code of the right form, whose request then fails with a 503. */
  isCurrency(code: string): boolean
  /** A currency with its rate; throws the 503 when there is no table. */
  currencyOf(code: string): AnswerCurrency
}

const CODE_FORM = /^[A-Z][A-Z0-9]{1,9}$/

/** Decides by the newest known table which currencies there are. */
export const fxRatesOf = (reader: FxReader): FxRates => ({
  ...reader,
  isCurrency(code) {
    const table = reader.current()
    return code === 'USD' || (table ? table.rates.has(code) : CODE_FORM.test(code))
  },
  currencyOf(code) {
    const rate = code === 'USD' ? USD_RATE : reader.current()?.rates.get(code)
    if (!rate) throw ratesUnavailable()
    return { code, rate }
  },
})

/** Reads what is needed to convert records from `from` on; throws the 503 when there is no rate. */
export async function readRates(clickhouse: ClickhouseReader, currency: string, from: Instant): Promise<RateAt> {
  const rateAt = await readDayRates(clickhouse, currency, from)
  if (!rateAt) throw ratesUnavailable()
  return rateAt
}

/** The 503 for an amount that cannot be converted now. */
export const ratesUnavailable = (): HttpError =>
  new HttpError('SERVICE_UNAVAILABLE', 'Exchange rates are temporarily unavailable; USD needs none.')
