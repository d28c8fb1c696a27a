/**
 * The role `api`: opens what the routes read, mounts them on the process's HTTP host, and closes it all.
 *
 * Reads Redis, ClickHouse and Postgres; never reads Kafka but for the catalog that the process shares. Counts
 * requests in Redis and writes no view. Invariant: a lost dependency is a 503 on the routes that need it while the others answer on.
 */

import { openReader } from '#infra/clickhouse/clickhouse.ts'
import { loadProviders } from '#infra/config/providers.ts'
import { loadAddressLimit, loadTiers } from '#infra/config/tiers.ts'
import { openGuard } from '#infra/http/guard.ts'
import { openObserver } from '#infra/http/reply.ts'
import { makeApp } from '#infra/http/serve-routes.ts'
import { openOutbound } from '#infra/outbound/post.ts'
import { type DatabaseOptions, databaseUrl, lacksReference, openDatabase } from '#infra/postgres/pool.ts'
import { openAddressLimit, openRateLimit } from '#infra/redis/rate-limit.ts'
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import { openRequestMeter } from '#infra/redis/request-meter.ts'
import { openStreamPermits } from '#infra/redis/stream-permits.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import { type Log, openLineLog } from '#infra/runtime/log.ts'
import type { RoleContext, RunningRole } from '#infra/runtime/role.ts'
import { openSealedBox } from '#infra/runtime/sealed-box.ts'
import { openClientOf } from '#infra/runtime/trusted-proxies.ts'
import { openKeyUse } from '#services/accounts/access/commands.ts'
import { openAuthenticate, openKeyDirectory } from '#services/accounts/access/reader.ts'
import { openRefusalWatch } from '#services/accounts/audit/commands.ts'
import { accountGone, openUnsubscribeLinks } from '#services/accounts/reader.ts'
import { openSignIn } from '#services/accounts/sign-in/commands.ts'
import { openInventoriesAt } from '#services/inventory/reader.ts'
import { openPortfolioStore } from '#services/portfolios/commands.ts'
import { openFxReader } from '#streams/fx/reader.ts'
import { openLiveReader } from '#streams/live-view/reader.ts'
import { openWholeTables } from '#streams/runner/whole-tables.ts'
import { apiEndpoints } from './app.ts'
import { type ApiContext, fxRatesOf, openComputedViews, openLiveView, openStoredPrices } from './context.ts'
import { openCursors } from './cursors.ts'
import { openSnapshotStreams } from './snapshot-streams.ts'
import { AT_ONCE, openAccountBudget, openLongWork } from './work-limits.ts'

const NAME = 'api'
const KEY_CHECK_LIMIT_MS = 1_500
const READ_CONNECTIONS = 6
const SIGN_IN_CONNECTIONS = 4
const DELETION_CONNECTIONS = 2
/** A million transactions, 50,000 alerts and as many deliveries take 7 s; the largest ledger has five million. */
const DELETION_LIMIT_MS = 180_000

/** Starts the query service; `now` is in milliseconds since the epoch. */
export async function start(context: RoleContext, now: () => number = Date.now): Promise<RunningRole> {
  const { config, http, metrics } = context
  const log = context.log.child({ role: NAME })
  const database = databaseName(config.namespace)
  const registry = loadProviders(config.providersFile)
  const catalog = await context.catalog()
  const redis = await openRedis(config, { name: NAME, log })
  const clickhouse = openWholeTables(openReader(config.servers.clickhouseReadOnly, { database, name: NAME }))
  const pools = openPools(config, log)
  const { postgres, writes, reads, signIns, longWork, deletions } = pools
  const keyUse = openKeyUse(writes, log)
  const fx = fxRatesOf(await openFxReader(clickhouse, log))
  const snapshotStreams = openSnapshotStreams({ settings: config, redis, log, metrics })
  const tiers = loadTiers(config.tiersFile)
  const directory = openKeyDirectory(postgres)
  const meter = openRequestMeter(redis, { prefix: config.namespace, now })
  const { signIn, ...mailAndLinks } = openSignIn(config, signIns, now)
  const forget = (accountId: string) => [directory, signIn?.sessions].map(one => one?.forget(accountId))
  const keys = { authenticate: directory.authenticate, forget }
  const clientOf = openClientOf(config.clients.trustedProxies)
  const guard = openGuard({
    authenticate: openAuthenticate(keys, signIn?.sessions),
    meter,
    addresses: openAddressLimit(redis, { prefix: config.namespace, perMinute: loadAddressLimit(config.tiersFile) }),
    clientOf,
    tiers,
    ...{ noteUse: id => keyUse.note(id, now()), noteRefused: openRefusalWatch(writes, log, now).note },
  })
  const api: ApiContext = {
    ...{ ...mailAndLinks, signIn, registry, catalog, tiers, fx, keys, now, clientOf },
    ...{ database: writes, reads, deletions, snapshotStreams, baseUrl: config.baseUrl },
    ...settingsOf(config),
    ...openComputedViews({ redis, prefix: config.namespace }, meter),
    live: openLiveView(openLiveReader(redis, config.namespace, { ask: registry.askKeys, bid: registry.bidKeys })),
    clickhouse: openStoredPrices(clickhouse),
    longWork: openLongWork(longWork),
    budget: openAccountBudget(openRateLimit(redis, `${config.namespace}account-expensive`), tiers),
    store: openPortfolioStore(writes),
    streamPermits: openStreamPermits(redis, { prefix: config.namespace }),
    inventories: openInventoriesAt(config.inventoryUrl, context.signal),
  }
  const accessLog = openLineLog(log)
  const refusalOf = (error: unknown) => (lacksReference(error, 'account_id') ? accountGone() : undefined)
  const observe = openObserver(accessLog.log, metrics)
  http.mount(['/'], makeApp(apiEndpoints(api), guard, { log, observe, refusalOf }))
  return {
    name: NAME,
    ready: async () => (redis.status === 'ready' ? undefined : 'Redis does not answer'),
    async stop() {
      await snapshotStreams.close()
      fx.stop()
      await closeRedis(redis)
      await clickhouse.close()
      await keyUse.close()
      await Promise.all(Object.values(pools).map(pool => pool.close()))
      accessLog.close()
    },
  }
}

/** A constant in its place would let anybody sign cursors. */
function signingKey(cursorKey: string | undefined): string {
  if (cursorKey === undefined) throw new Error('CURSOR_KEY is not set; it is the same secret for all API processes')
  return cursorKey
}

/** Pools that do not keep each other waiting: the check of keys, writes (for locks), large reads, sign-in, long work, deletions of accounts. */
function openPools(config: PlatformConfig, log: Log) {
  const url = databaseUrl(config.servers.postgres, databaseName(config.namespace))
  const open = (name: string, more: Partial<DatabaseOptions> = {}) => openDatabase(url, { name, log, ...more })
  return {
    postgres: open(NAME, { statementLimitMs: KEY_CHECK_LIMIT_MS }),
    writes: open('api-writes'),
    reads: open('api-reads', { connections: READ_CONNECTIONS }),
    signIns: open('api-sign-in', { connections: SIGN_IN_CONNECTIONS }),
    longWork: open('api-long-work', { connections: AT_ONCE }),
    deletions: open('api-deletions', { connections: DELETION_CONNECTIONS, statementLimitMs: DELETION_LIMIT_MS }),
  }
}

/** Of the settings alone. */
const settingsOf = ({ secretKey, baseUrl, cursorKey, webhookAllow, webhookPorts, webhookDns }: PlatformConfig) => ({
  box: secretKey === undefined ? undefined : openSealedBox(secretKey),
  unsubscribeLinks: secretKey === undefined ? undefined : openUnsubscribeLinks(secretKey, baseUrl),
  refusesUrl: openOutbound({ allow: webhookAllow, ports: webhookPorts, dns: webhookDns }).refuses,
  cursors: openCursors(signingKey(cursorKey)),
})
