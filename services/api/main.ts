/**
 * The role `api`: opens what the routes read, mounts them on the process's HTTP host, and closes it all.
 *
 * Reads Redis, ClickHouse and Postgres; never reads Kafka but for the catalog that the process shares. Counts
 * requests in Redis and writes no view. Invariant: a lost dependency is a 503 on the routes that need it while the others answer on.
 */
import { openReader } from '#infra/clickhouse/clickhouse.ts'
import { loadProviders } from '#infra/config/providers.ts'
import { loadAddressLimit, loadTiers } from '#infra/config/tiers.ts'
import { openOutbound } from '#infra/outbound/post.ts'
import { databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { openAddressLimit } from '#infra/redis/address-limit.ts'
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import { openRequestMeter } from '#infra/redis/request-meter.ts'
import { openStreamSlots } from '#infra/redis/stream-slots.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { openLineLog } from '#infra/runtime/log.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { openSealedBox } from '#infra/runtime/sealed-box.ts'
import { openKeyUse } from '#services/accounts/access/commands.ts'
import { openKeyDirectory } from '#services/accounts/access/reader.ts'
import { openSignIn } from '#services/accounts/sign-in/commands.ts'
import { openUnsubscribeLinks } from '#services/accounts/unsubscribe/reader.ts'
import { openInventoriesAt } from '#services/inventory/reader.ts'
import { openFxReader } from '#streams/fx/reader.ts'
import { openLiveReader } from '#streams/live-view/reader.ts'
import { openMarketViews } from '#streams/market-summary/reader.ts'
import { openHealthReader } from '#streams/provider-health/reader.ts'
import { makeApp } from './app.ts'
import { openCursors } from './cursors.ts'
import type { ApiParts } from './parts.ts'
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
  const redis = await openRedis(config.servers.redis, { name: NAME, log })
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
  const snapshotStreams = openSnapshotStreams({ redisUrl: config.servers.redis, log, metrics })
  const parts: ApiParts = {
    catalog,
    registry,
    tiers: loadTiers(config.tiersFile),
    keys: openKeyDirectory(postgres),
    keyUse,
    meter: openRequestMeter(redis, { prefix: config.namespace, now: Date.now }),
    addresses: openAddressLimit(redis, { prefix: config.namespace, perMinute: loadAddressLimit(config.tiersFile) }),
    streamSlots: openStreamSlots(redis, { prefix: config.namespace }),
    snapshotStreams,
    live: openLiveView(openLiveReader(redis, config.namespace, { ask: registry.askKeys, bid: registry.bidKeys })),
    market,
    health: openHealthReader(redis, config.namespace),
    redis,
    prefix: config.namespace,
    clickhouse,
    fx,
    database: writes,
    ...openSignIn(config, writes, Date.now),
    box: config.secretKey === undefined ? undefined : openSealedBox(config.secretKey),
    refusesUrl: openOutbound({ allow: config.webhookAllow, dns: config.webhookDns }).refuses,
    unsubscribeLinks:
      config.secretKey === undefined ? undefined : openUnsubscribeLinks(config.secretKey, config.baseUrl),
    inventories: openInventoriesAt(config.inventoryUrl, context.signal),
    cursors: openCursors(config.cursorKey),
    baseUrl: config.baseUrl,
    now: Date.now,
  }
  const accessLog = openLineLog(log)
  http.mount(['/'], makeApp(parts, { log, accessLog: accessLog.log, metrics }))
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
