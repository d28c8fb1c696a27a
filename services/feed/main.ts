/**
 * The role `feed`: market.book-changes in, Server-Sent Events out.
 *
 * Mounts /feed and /v1/feed on the process's HTTP host, where it shares the API's origin when both run
 * in one process. Reads keys from Postgres and names from the catalog; counts connects in Redis. Any number of
 * gateway processes may run side by side: connections of a key are counted over all of them.
 */
import { loadProviders } from '#infra/config/providers.ts'
import { loadAddressLimit, loadTiers } from '#infra/config/tiers.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { openKeyDirectory } from '#infra/postgres/key-directory.ts'
import { openKeyUse } from '#infra/postgres/key-use.ts'
import { databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { openAddressLimit } from '#infra/redis/address-limit.ts'
import { openHeldPlaces } from '#infra/redis/held-places.ts'
import { openOneTimeTokens } from '#infra/redis/one-time-tokens.ts'
import { closeRedis, keepConnecting, openRedis } from '#infra/redis/redis.ts'
import { openRequestMeter } from '#infra/redis/request-meter.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { openChangeReader } from './change-reader.ts'
import { openFeedHandler } from './feed-handler.ts'
import { openFeedMetrics } from './feed-metrics.ts'
import { openGateway } from './gateway.ts'
import { openFeedLimits } from './request-limits.ts'

const KEY_CONNECTIONS = 2
/** Source: decisions.md, "Feeds". */
const TOKEN_MS = 5 * 60_000

/** Starts the feed. */
export const start: StartRole = async context => {
  const { config, log } = context
  const registry = loadProviders(config.providersFile)
  const tiers = loadTiers(config.tiersFile)
  const metrics = openFeedMetrics(context.metrics)
  const catalog = await context.catalog()
  const url = databaseUrl(config.servers.postgres, databaseName(config.namespace))
  const database = openDatabase(url, { name: 'feed', log, connections: KEY_CONNECTIONS })
  const keys = openKeyDirectory(database)
  const keyUse = openKeyUse(database, log)
  const redis = await openRedis(config.servers.redis, { name: 'feed', log })
  const stopConnecting = keepConnecting(redis)
  const limits = openFeedLimits({
    meter: openRequestMeter(redis, { prefix: config.namespace, now: Date.now }),
    addresses: openAddressLimit(redis, { prefix: config.namespace, perMinute: loadAddressLimit(config.tiersFile) }),
    tiers,
  })
  const places = openHeldPlaces(redis, { prefix: config.namespace, name: 'feed' })
  const gateway = openGateway({
    itemOf: catalog.byId,
    mayListen: ({ tier }) => tiers[tier].feed_connections > 0,
    metrics,
    log,
  })
  const reader = await openChangeReader({
    kafka: connectKafka({ config, role: 'feed', log }),
    deliver: gateway.deliver,
    metrics,
    fail: context.fail,
  })
  const unavailable = () => (context.signal.aborted ? 'the feed is stopping' : reader.unavailable())
  const handler = openFeedHandler({
    access: {
      keys,
      tokens: openOneTimeTokens(redis, { prefix: config.namespace, name: 'feed', ttlMs: TOKEN_MS, now: Date.now }),
      connectionsOf: ({ tier }) => tiers[tier].feed_connections,
      places,
      limits,
      noteUse: keyId => keyUse.note(keyId, Date.now()),
      log,
    },
    gateway,
    providerKeys: registry.askKeys,
    providersOf: { ask: registry.askKeys, bid: registry.bidKeys },
    unavailable,
    metrics,
  })
  context.http.mount(['/feed', '/v1/feed'], handler)
  return {
    name: 'feed',
    ready: async () => unavailable(),
    async stop() {
      await gateway.stop()
      await reader.stop()
      await places.close()
      stopConnecting()
      await closeRedis(redis)
      await keyUse.close()
      await database.close()
    },
  }
}
