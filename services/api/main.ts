/**
 * The role `api`: opens what the routes read, mounts them on the process's HTTP host, and closes it all.
 *
 * Reads Redis, ClickHouse and Postgres; never reads Kafka but for the catalog that the process shares. Counts
 * requests in Redis and writes no view. Invariant: a lost dependency is a 503 on the routes that need it while the others answer on.
 */
import { openReader } from '#infra/clickhouse/clickhouse.ts'
import { loadProviders } from '#infra/config/providers.ts'
import { loadAddressLimit, loadTiers } from '#infra/config/tiers.ts'
import { openClientOf } from '#infra/http/client-address.ts'
import { openGuard } from '#infra/http/guard.ts'
import { openObserver } from '#infra/http/reply.ts'
import { makeApp } from '#infra/http/serve-routes.ts'
import { openOutbound } from '#infra/outbound/post.ts'
import { databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { openAddressLimit } from '#infra/redis/address-limit.ts'
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import { openRequestMeter } from '#infra/redis/request-meter.ts'
import { openStreamSlots } from '#infra/redis/stream-slots.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import { openLineLog } from '#infra/runtime/log.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { openSealedBox } from '#infra/runtime/sealed-box.ts'
import { openKeyUse } from '#services/accounts/access/commands.ts'
import { openAuthenticate, openKeyDirectory } from '#services/accounts/access/reader.ts'
import { openSignIn } from '#services/accounts/sign-in/commands.ts'
import { openUnsubscribeLinks } from '#services/accounts/unsubscribe/reader.ts'
import { openInventoriesAt } from '#services/inventory/reader.ts'
import { openPortfolioStore } from '#services/portfolios/commands.ts'
import { openFxReader } from '#streams/fx/reader.ts'
import { openLiveReader } from '#streams/live-view/reader.ts'
import { openMarketViews } from '#streams/market-summary/reader.ts'
import { openHealthReader } from '#streams/provider-health/reader.ts'
import { apiEndpoints } from './app.ts'
import { openCursors } from './cursors.ts'
import { fxRatesOf } from './queries/fx-rates.ts'
import { openLiveView } from './queries/live-view.ts'
import { openSnapshotStreams } from './snapshot-streams.ts'

const NAME = 'api'
const KEY_CHECK_LIMIT_MS = 1_500

/** Starts the query service. */
export const start: StartRole = async context => {
  const { config, http, metrics } = context
  const log = context.log.child({ role: NAME })
  const database = databaseName(config.namespace)
  const registry = config.providersFile ? loadProviders(config.providersFile) : loadProviders()
  const catalog = await context.catalog()
  const redis = await openRedis(config, { name: NAME, log })
  const clickhouse = openReader(config.servers.clickhouseReadOnly, { database, name: NAME })
  const postgres = openDatabase(databaseUrl(config.servers.postgres, database), {
    name: NAME,
    log,
    statementLimitMs: KEY_CHECK_LIMIT_MS,
  })
  // The write sides wait for locks, which must not keep the check of keys waiting.
  const writes = openDatabase(databaseUrl(config.servers.postgres, database), { name: 'api-writes', log })
  const keyUse = openKeyUse(writes, log)
  const fx = fxRatesOf(await openFxReader(redis, config.namespace, log))
  const market = await openMarketViews(redis, config.namespace, log)
  const snapshotStreams = openSnapshotStreams({ settings: config, redis, log, metrics })
  const tiers = loadTiers(config.tiersFile)
  const keys = openKeyDirectory(postgres)
  const meter = openRequestMeter(redis, { prefix: config.namespace, now: Date.now })
  const live = openLiveView(openLiveReader(redis, config.namespace, { ask: registry.askKeys, bid: registry.bidKeys }))
  const { signIn, ...mailAndLinks } = openSignIn(config, writes, Date.now)
  const guard = openGuard({
    authenticate: openAuthenticate(keys, signIn?.sessions),
    meter,
    addresses: openAddressLimit(redis, { prefix: config.namespace, perMinute: loadAddressLimit(config.tiersFile) }),
    clientOf: openClientOf(config.clients.trustedProxies),
    tiers,
    noteUse: keyId => keyUse.note(keyId, Date.now()),
  })
  const endpoints = apiEndpoints({
    ...mailAndLinks,
    ...settingsOf(config, context.signal),
    catalog,
    registry,
    tiers,
    keys,
    meter,
    signIn,
    clickhouse,
    fx,
    market,
    database: writes,
    store: openPortfolioStore(writes),
    streamSlots: openStreamSlots(redis, { prefix: config.namespace }),
    snapshots: { pin: live.pinSnapshot, streams: snapshotStreams },
    live,
    health: openHealthReader(redis, config.namespace),
    viewStore: { redis, prefix: config.namespace },
  })
  const accessLog = openLineLog(log)
  http.mount(['/'], makeApp(endpoints, guard, { log, observe: openObserver(accessLog.log, metrics) }))
  return {
    name: NAME,
    ready: async () => (redis.status === 'ready' ? undefined : 'Redis does not answer'),
    async stop() {
      await snapshotStreams.close()
      fx.stop()
      market.stop()
      await closeRedis(redis)
      await clickhouse.close()
      await keyUse.close()
      await postgres.close()
      await writes.close()
      accessLog.close()
    },
  }
}

/** What routes are given of the settings alone. */
function settingsOf(config: PlatformConfig, signal: AbortSignal) {
  const { secretKey, baseUrl } = config
  return {
    box: secretKey === undefined ? undefined : openSealedBox(secretKey),
    unsubscribeLinks: secretKey === undefined ? undefined : openUnsubscribeLinks(secretKey, baseUrl),
    refusesUrl: openOutbound({ allow: config.webhookAllow, dns: config.webhookDns }).refuses,
    inventories: openInventoriesAt(config.inventoryUrl, signal),
    cursors: openCursors(config.cursorKey),
    baseUrl,
    now: Date.now,
  }
}
