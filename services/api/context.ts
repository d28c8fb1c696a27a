/** All that routes read and call. A view that cannot be read is a 503, never an empty or unconverted answer. */
import type { Request } from 'express'
import { type ClickhouseReader, openReader } from '#infra/clickhouse/clickhouse.ts'
import { loadProviders, type ProviderRegistry } from '#infra/config/providers.ts'
import { loadAddressLimit, loadTiers } from '#infra/config/tiers.ts'
import type { Credential } from '#infra/http/credential.ts'
import { openGuard } from '#infra/http/guard.ts'
import { HttpError } from '#infra/http/http-error.ts'
import { openOutbound } from '#infra/outbound/post.ts'
import { type DatabaseOptions, databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { openAddressLimit, openRateLimit } from '#infra/redis/rate-limit.ts'
import { closeRedis, openRedis, type ViewStore } from '#infra/redis/redis.ts'
import { openRequestMeter } from '#infra/redis/request-meter.ts'
import { openStreamPermits } from '#infra/redis/stream-permits.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { RoleContext } from '#infra/runtime/role.ts'
import { openSealedBox } from '#infra/runtime/sealed-box.ts'
import { openClientOf } from '#infra/runtime/trusted-proxies.ts'
import type { AnswerCurrency } from '#schemas/api/entry-text.ts'
import type { ErrorCode } from '#schemas/api/error.ts'
import type { MoversQuery } from '#schemas/api/movers.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import type { Instant } from '#schemas/values/instant.ts'
import { USD_RATE } from '#schemas/values/money.ts'
import { openKeyUse } from '#services/accounts/access/commands.ts'
import { openAuthenticate, openKeyDirectory } from '#services/accounts/access/reader.ts'
import { type Origin, openRefusalWatch } from '#services/accounts/audit/commands.ts'
import { openUnsubscribeLinks } from '#services/accounts/reader.ts'
import { openSignIn } from '#services/accounts/sign-in/commands.ts'
import { openHttpSource, openInventories } from '#services/inventory/reader.ts'
import { openPortfolioStore } from '#services/portfolios/commands.ts'
import { type FxReader, openFxReader, type RateAt, readDayRates } from '#streams/fx/reader.ts'
import { openLiveReader } from '#streams/live-view/reader.ts'
import { ARBITRAGE_SNAPSHOT_LIMIT_MS, openMarketViews } from '#streams/market-summary/reader.ts'
import { MOVERS_AGE_LIMIT_MS, openMoversReader } from '#streams/movers/reader.ts'
import { openHealthReader } from '#streams/provider-health/reader.ts'
import { openWholeTables } from '#streams/runner/whole-tables.ts'
import { openCursors } from './cursors.ts'
import { openSnapshotStreams } from './snapshot-streams.ts'
import { AT_ONCE, openAccountBudget, openLongWork } from './work-limits.ts'

export type ApiContext = Awaited<ReturnType<typeof openContext>>['api']

/** Opens it; `now` is in milliseconds since the epoch. */
export async function openContext(context: RoleContext, log: Log, now: () => number) {
  const { config, metrics } = context
  const prefix = config.namespace
  const registry = loadProviders(config.providersFile)
  const tiers = loadTiers(config.tiersFile)
  const catalog = await context.catalog()
  const redis = await openRedis(config, { name: 'api', log })
  const reader = openReader(config.servers.clickhouseReadOnly, { database: databaseName(prefix), name: 'api' })
  const clickhouse = openWholeTables(reader)
  const pools = openPools(config, log)
  const keyUse = openKeyUse(pools.writes, log)
  const fx = fxRatesOf(await openFxReader(clickhouse, log))
  const snapshotStreams = openSnapshotStreams({ settings: config, redis, log, metrics })
  const meter = openRequestMeter(redis, { prefix, now })
  const directory = openKeyDirectory(pools.keyChecks)
  const { signIn, mail, platformSignIn } = openSignIn(config, pools.signIns, now)
  const forget = (accountId: string) => [directory, signIn?.sessions].map(one => one?.forget(accountId))
  const keys = { authenticate: directory.authenticate, forget }
  const clientOf = openClientOf(config.clients.trustedProxies)
  const guard = openGuard({
    authenticate: openAuthenticate(keys, signIn?.sessions),
    meter,
    addresses: openAddressLimit(redis, { prefix, perMinute: loadAddressLimit(config.tiersFile) }),
    clientOf,
    tiers,
    noteUse: id => keyUse.note(id, now()),
    noteRefused: openRefusalWatch(pools.writes, log, now).note,
  })
  const api = {
    signIn,
    mail,
    platformSignIn,
    registry,
    catalog,
    tiers,
    fx,
    keys,
    now,
    clientOf,
    snapshotStreams,
    ...viewsOf({ redis, prefix }, registry, now),
    ...settingsOf(config),
    clickhouse: orUnavailable(clickhouse, () => ['Stored prices and sales are temporarily unavailable.']),
    /** Counted requests of the month, by the lineage of a key. */
    readUse: orUnavailable(meter, () => ['Requests cannot be counted at the moment; try again with a growing delay.'])
      .monthOf,
    streamPermits: openStreamPermits(redis, { prefix }),
    database: pools.writes,
    reads: pools.reads,
    deletions: pools.deletions,
    longWork: openLongWork(pools.longWork),
    budget: openAccountBudget(openRateLimit(redis, `${prefix}account-expensive`), tiers),
    store: openPortfolioStore(pools.writes),
    inventories: inventoriesOf(config.inventoryUrl, context.signal),
  }
  return {
    api,
    guard,
    isReady: () => redis.status === 'ready',
    async close() {
      await snapshotStreams.close()
      fx.stop()
      await closeRedis(redis)
      await clickhouse.close()
      await keyUse.close()
      await Promise.all(Object.values(pools).map(pool => pool.close()))
    },
  }
}

/** Of the game's platform; undefined: this service is connected to none. */
const inventoriesOf = (baseUrl: string | undefined, signal: AbortSignal) =>
  baseUrl === undefined ? undefined : openInventories(openHttpSource({ baseUrl, signal }), () => performance.now())

const KEY_CHECK_LIMIT_MS = 1_500
/** A million transactions, 50,000 alerts and as many deliveries take 7 s; the largest ledger has five million. */
const DELETION_LIMIT_MS = 180_000

/** Pools that do not keep each other waiting: the check of keys, writes (for locks), large reads, sign-in, long work, deletions of accounts. */
function openPools(config: PlatformConfig, log: Log) {
  const url = databaseUrl(config.servers.postgres, databaseName(config.namespace))
  const open = (name: string, more: Partial<DatabaseOptions> = {}) => openDatabase(url, { name, log, ...more })
  return {
    keyChecks: open('api', { statementLimitMs: KEY_CHECK_LIMIT_MS }),
    writes: open('api-writes'),
    reads: open('api-reads', { connections: 6 }),
    signIns: open('api-sign-in', { connections: 4 }),
    longWork: open('api-long-work', { connections: AT_ONCE }),
    deletions: open('api-deletions', { connections: 2, statementLimitMs: DELETION_LIMIT_MS }),
  }
}

const settingsOf = ({ secretKey, baseUrl, cursorKey, webhookAllow, webhookPorts, webhookDns }: PlatformConfig) => ({
  /** Public root of the API, without a trailing slash. */
  baseUrl,
  cursors: openCursors(signingKey(cursorKey)),
  /** Of stored secrets; undefined without a key of the environment, as are the links. */
  box: secretKey === undefined ? undefined : openSealedBox(secretKey),
  unsubscribeLinks: secretKey === undefined ? undefined : openUnsubscribeLinks(secretKey, baseUrl),
  /** Recognizes URLs that no webhook may have. */
  refusesUrl: openOutbound({ allow: webhookAllow, ports: webhookPorts, dns: webhookDns }).refuses,
})

/** A constant in its place would let anybody sign cursors. */
function signingKey(cursorKey: string | undefined): string {
  if (cursorKey === undefined) throw new Error('CURSOR_KEY is not set; it is the same secret for all API processes')
  return cursorKey
}

/** The same functions, whose failures are the 503 that a call has by its first argument. */
function orUnavailable<R extends object>(
  reader: R,
  refusalOf: (first: never) => [detail: string, code?: ErrorCode],
): R {
  const wrapped = Object.entries(reader).map(([name, member]) => {
    if (typeof member !== 'function') return [name, member]
    const call = async (...args: never[]) => {
      try {
        return await member(...args)
      } catch (cause) {
        const [detail, code = 'SERVICE_UNAVAILABLE'] = refusalOf(args[0] as never)
        throw new HttpError(code, detail, { cause })
      }
    }
    return [name, call]
  })
  return Object.fromEntries(wrapped)
}

/** The code of a 503 by the side that cannot be read. */
export const INDEX_CODES = { ask: 'PRICES_INDEX_UNAVAILABLE', bid: 'BIDS_INDEX_UNAVAILABLE' } as const
const NO_INDEX = {
  ask: 'The live price index is temporarily unavailable.',
  bid: 'The live bids index is temporarily unavailable.',
}

const NO_MOVERS = 'No current movers are available; retry in a few seconds.'

/** The views in Redis. */
function viewsOf(store: ViewStore, { askKeys, bidKeys }: ProviderRegistry, now: () => number) {
  /** The newest version of a view; throws the 503 when there is none, or when it is too old. */
  const current = async <V extends { asOf: Instant }>(
    read: () => Promise<V | undefined>,
    detail: string,
    limitMs = Number.POSITIVE_INFINITY,
  ): Promise<V> => {
    const newest = await orUnavailable({ read }, () => [detail]).read()
    if (newest && now() - newest.asOf <= limitMs) return newest
    throw new HttpError('SERVICE_UNAVAILABLE', detail)
  }
  const { arbitrage, summary } = openMarketViews(store)
  const movers = openMoversReader(store)
  const live = openLiveReader(store.redis, store.prefix, { ask: askKeys, bid: bidKeys })
  const noArbitrage = 'No current arbitrage snapshot is available; retry in a few seconds.'
  const noHealth = 'Provider health is temporarily unavailable.'
  return {
    live: orUnavailable(live, (side: Side) => [NO_INDEX[side], INDEX_CODES[side]]),
    readHealth: orUnavailable({ read: openHealthReader(store.redis, store.prefix) }, () => [noHealth]).read,
    readArbitrage: () => current(arbitrage, noArbitrage, ARBITRAGE_SNAPSHOT_LIMIT_MS),
    readSummary: () => current(summary, 'The market summary is temporarily unavailable.'),
    async readMovers(window: MoversQuery['window']) {
      const newest = await current(movers, NO_MOVERS, MOVERS_AGE_LIMIT_MS)
      return { ...newest, rows: await orUnavailable(newest, () => [NO_MOVERS]).rows(window) }
    },
  }
}

/** The account behind a request and its address, as the audit log keeps them. */
export const originOf = (
  { clientOf }: ApiContext,
  { credential: { accountId, keyId, sessionId }, request }: { credential: Credential; request: Request },
): Origin => ({ accountId, keyId, sessionId, address: clientOf(request) })

const CODE_FORM = /^[A-Z][A-Z0-9]{1,9}$/

/** The rates in force; the newest known table decides which currencies there are. */
const fxRatesOf = (reader: FxReader) => ({
  ...reader,
  /** Whether a request may name this code; without a table any code of the right form, whose request then fails with a 503. */
  isCurrency(code: string): boolean {
    const table = reader.current()
    return code === 'USD' || (table ? table.rates.has(code) : CODE_FORM.test(code))
  },
  /** A currency with its rate; throws the 503 when there is no table. */
  currencyOf(code: string): AnswerCurrency {
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
