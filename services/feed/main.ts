/**
 * The role `feed`: market.book-changes in, Server-Sent Events out.
 *
 * Mounts /feed and /v1/feed on the process's HTTP host, where it shares the API's origin when both run
 * in one process. Reads keys from Postgres and names from the catalog; counts connects in Redis. Any number of
 * gateway processes may run concurrently: connections of a key are counted over all of them.
 */
import { loadProviders } from '#infra/config/providers.ts'
import { loadAddressLimit, loadTiers } from '#infra/config/tiers.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { openAddressLimit } from '#infra/redis/address-limit.ts'
import { openOneTimeTokens } from '#infra/redis/one-time-tokens.ts'
import { closeRedis, openRedis, type Redis } from '#infra/redis/redis.ts'
import { openRequestMeter } from '#infra/redis/request-meter.ts'
import { openStreamLeases } from '#infra/redis/stream-leases.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import type { RoleContext, RunningRole, StartRole } from '#infra/runtime/role.ts'
import { openClientOf } from '#infra/runtime/trusted-proxies.ts'
import { permits } from '#schemas/api/scopes.ts'
import { openKeyUse } from '#services/accounts/access/commands.ts'
import { openKeyDirectory } from '#services/accounts/access/reader.ts'
import { openRefusalWatch } from '#services/accounts/audit/commands.ts'
import { openLiveReader } from '#streams/live-view/reader.ts'
import { openCatchUps } from './catch-up.ts'
import { openChangeReader } from './change-reader.ts'
import { openConcurrencyLimit } from './concurrency-limit.ts'
import { openFeedHandler } from './feed-handler.ts'
import { FEED_NAMES, openFeedMetrics } from './feed-metrics.ts'
import { openItemText } from './frames.ts'
import { openGateway } from './gateway.ts'
import type { Subscription } from './hub.ts'
import { openLiveState } from './live-state.ts'
import { openLogHistory } from './log-history.ts'
import { openReplaySeats } from './replay-seats.ts'

const KEY_CONNECTIONS = 2
/** How long a feed token is valid (DECISIONS.md, "Feeds"). */
const TOKEN_MS = 5 * 60_000

/** Streams that may read the past at once. */
export interface StreamLimits {
  /** Each may have some hundred kilobytes unread, and live events that wait until it has caught up. */
  catchUps: number
  /** Open at once: each keeps one batch in memory while it waits. */
  replays: number
  /** Of those that read the log: each keeps a fetch and all changes of refreshes that are not complete there in memory. */
  replaySeats: number
}

/** Starts the feed. */
export const start: StartRole = context => startWithin({ catchUps: 1_000, replays: 256, replaySeats: 2 }, context)

/** Starts the feed within limits of its own. */
export async function startWithin(limits: StreamLimits, context: RoleContext): Promise<RunningRole> {
  const { config, log } = context
  const registry = loadProviders(config.providersFile)
  const tiers = loadTiers(config.tiersFile)
  const metrics = openFeedMetrics(context.metrics)
  const catalog = await context.catalog()
  const url = databaseUrl(config.servers.postgres, databaseName(config.namespace))
  const database = openDatabase(url, { name: 'feed', log, connections: KEY_CONNECTIONS })
  const keys = openKeyDirectory(database)
  const keyUse = openKeyUse(database, log)
  const redis = await openRedis(config, { name: 'feed', log })
  const providersOf = { ask: registry.askKeys, bid: registry.bidKeys }
  // Each stream reads its items once, so none are kept.
  const liveView = openLiveReader(redis, config.namespace, providersOf, 0)
  const leases = openStreamLeases(redis, { prefix: config.namespace, name: 'feed' })
  const ids = await context.topicIds()
  const topicId = await ids.idOf('bookChanges')
  const scopeOf = ({ side }: Subscription) => `${config.namespace}|${FEED_NAMES[side]}|${topicId}`
  const items = { itemOf: catalog.byId, itemText: openItemText() }
  const gateway = openGateway({
    ...{ ...items, scopeOf, metrics, log },
    mayListen: ({ tier, scopes }) => tiers[tier].feed_connections > 0 && permits(scopes, 'feeds'),
  })
  const kafka = connectKafka({ config, role: 'feed', log })
  const reader = await openChangeReader({ kafka, ids, deliver: gateway.deliver, metrics, fail: context.fail })
  const history = openLogHistory(kafka, metrics)
  const catchUps = openCatchUps({ live: reader, history, ...items, metrics })
  const unavailable = () => (context.signal.aborted ? 'the feed is stopping' : reader.unavailable())
  const noteRefused = openRefusalWatch(database, log, Date.now).note
  const handler = openFeedHandler({
    access: {
      keys,
      leases,
      tokens: openOneTimeTokens(redis, { prefix: config.namespace, name: 'feed', ttlMs: TOKEN_MS, now: Date.now }),
      connectionsOf: ({ tier }) => tiers[tier].feed_connections,
    },
    limits: { ...limitsBy(redis, config), tiers, noteUse: id => keyUse.note(id, Date.now()), noteRefused },
    gateway,
    catalog,
    starts: {
      live: reader,
      history,
      catchUps,
      scopeOf,
      concurrency: openConcurrencyLimit(limits.catchUps, acquired => metrics.catchingUp.set(acquired)),
      state: openLiveState({ live: liveView, topicId, items: catalog.items, ...items }),
    },
    replays: { history, ...items, ...boundsOf(limits) },
    providerKeys: registry.askKeys,
    providersOf,
    unavailable,
    metrics,
    log,
  })
  context.http.mount(['/feed', '/v1/feed'], handler)
  return {
    name: 'feed',
    ready: async () => unavailable(),
    async stop() {
      await gateway.stop()
      catchUps.close()
      await history.close()
      await reader.stop()
      await leases.close()
      await closeRedis(redis)
      await keyUse.close()
      await database.close()
    },
  }
}

/** The bounds of replays: open ones, and those that read. */
const boundsOf = ({ replays, replaySeats }: StreamLimits) => ({
  concurrency: openConcurrencyLimit(replays),
  seats: openReplaySeats(replaySeats, () => performance.now()),
})

/** Counts requests in the same windows as the API does. */
function limitsBy(redis: Redis, { namespace: prefix, tiersFile, clients }: PlatformConfig) {
  return {
    meter: openRequestMeter(redis, { prefix, now: Date.now }),
    addresses: openAddressLimit(redis, { prefix, perMinute: loadAddressLimit(tiersFile) }),
    clientOf: openClientOf(clients.trustedProxies),
  }
}
