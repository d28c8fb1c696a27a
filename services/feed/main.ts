/**
 * The role `feed`: market.book-changes and market.sales in, Server-Sent Events out.
 *
 * Mounts /feed and /v1/feed on the process's HTTP host, where it shares the API's origin when both run
 * in one process. Reads keys from Postgres and names from the catalog; counts connects in Redis. Any number of
 * gateway processes may run concurrently: connections of a key are counted over all of them.
 */
import { loadProviders } from '#infra/config/providers.ts'
import { loadAddressLimit, loadTiers } from '#infra/config/tiers.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { openExpiringTokens } from '#infra/redis/expiring-tokens.ts'
import { openAddressLimit } from '#infra/redis/rate-limit.ts'
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import { openRequestMeter } from '#infra/redis/request-meter.ts'
import { openStreamLeases } from '#infra/redis/stream-leases.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { RoleContext, RunningRole, StartRole } from '#infra/runtime/role.ts'
import { openClientOf } from '#infra/runtime/trusted-proxies.ts'
import { permits } from '#schemas/api/scopes.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import { openKeyUse } from '#services/accounts/access/commands.ts'
import { openKeyDirectory } from '#services/accounts/access/reader.ts'
import { openRefusalWatch } from '#services/accounts/audit/commands.ts'
import { openLiveReader } from '#streams/live-view/reader.ts'
import { openFeedLog } from './feed-log.ts'
import { bookTopic, salesTopic } from './feed-topics.ts'
import { openItemText } from './frames.ts'
import { openGateway } from './gateway.ts'
import { openFeedMetrics } from './metrics.ts'
import { openFeedHandler } from './routes.ts'
import { openPinState } from './snapshot.ts'
import { LOG_READERS_MAX, openPermits } from './subscribe.ts'

const KEY_CONNECTIONS = 2
/** How long a feed token may be opened first (DECISIONS.md, "Feeds"). */
const TOKEN_MS = 5 * MINUTE_MS

export interface FeedLimits {
  /** Streams that are not live yet: each may have some hundred kilobytes unread. */
  starting: number
  /** Each has a connection to Kafka and a fetch of its own. */
  replays: number
  /** Of each topic. */
  windowBytes: number
}

export const start: StartRole = context =>
  startWithin({ starting: 1_000, replays: 64, windowBytes: 64 * 2 ** 20 }, context)

export async function startWithin(limits: FeedLimits, context: RoleContext): Promise<RunningRole> {
  const { config, log, fail } = context
  const { cursorKey, namespace: prefix } = config
  if (cursorKey === undefined)
    throw new Error('CURSOR_KEY is not set; it is the same secret for all gateways and the API')
  const registry = loadProviders(config.providersFile)
  const tiers = loadTiers(config.tiersFile)
  const metrics = openFeedMetrics(context.metrics)
  const catalog = await context.catalog()
  const url = databaseUrl(config.servers.postgres, databaseName(prefix))
  const database = openDatabase(url, { name: 'feed', log, connections: KEY_CONNECTIONS })
  const keyUse = openKeyUse(database, log)
  const redis = await openRedis(config, { name: 'feed', log })
  const leases = openStreamLeases(redis, { prefix, name: 'feed' })
  const providersOf = { ask: registry.askKeys, bid: registry.bidKeys, sale: registry.saleKeys }
  const items = { itemOf: catalog.byId, itemText: openItemText() }
  const kafka = connectKafka({ config, role: 'feed', log })
  const gateway = openGateway({
    ...items,
    metrics,
    log,
    mayListen: ({ tier, scopes }) => tiers[tier].feed_connections > 0 && permits(scopes, 'feeds'),
  })
  const topicIds = await context.topicIds()
  const parts = { kafka, topicIds, cursorKey, items, gateway, windowBytes: limits.windowBytes, metrics, fail }
  const book = await openFeedLog(bookTopic, parts)
  const onLeftOut = () => metrics.unknownItems.inc()
  const sales = await openFeedLog(salesTopic(catalog.idOf, onLeftOut), parts)
  // Each stream reads its items once, so none are kept.
  const live = openLiveReader(redis, prefix, providersOf, 0)
  const shared = {
    ...items,
    pinState: openPinState({ live, topicId: book.topicId, items: catalog.items, ...items }),
    acquireStart: openPermits(limits.starting, acquired => metrics.catchingUp.set(acquired)),
    acquireLogReader: openPermits(LOG_READERS_MAX),
  }
  const unavailable = () =>
    context.signal.aborted ? 'the feed is stopping' : (book.unavailable() ?? sales.unavailable())
  const handler = openFeedHandler({
    access: {
      keys: openKeyDirectory(database),
      leases,
      tokens: openExpiringTokens(redis, { prefix, name: 'feed', ttlMs: TOKEN_MS, now: Date.now }),
      connectionsOf: ({ tier }) => tiers[tier].feed_connections,
    },
    limits: {
      // In the same windows as the API does.
      meter: openRequestMeter(redis, { prefix, now: Date.now }),
      addresses: openAddressLimit(redis, { prefix, perMinute: loadAddressLimit(config.tiersFile) }),
      clientOf: openClientOf(config.clients.trustedProxies),
      tiers,
      noteUse: id => keyUse.note(id, Date.now()),
      noteRefused: openRefusalWatch(database, log, Date.now).note,
    },
    gateway,
    catalog,
    starts: { ask: { ...shared, ...book }, bid: { ...shared, ...book }, sale: { ...shared, ...sales } },
    replays: { ...items, openReader: side => (side === 'sale' ? sales : book).openReader() },
    acquireReplay: openPermits(limits.replays),
    providerKeys: registry.askKeys,
    providersOf,
    unavailable,
    log,
  })
  context.http.mount(['/feed', '/v1/feed'], handler)
  return {
    name: 'feed',
    ready: async () => unavailable(),
    async stop() {
      await gateway.stop()
      for (const topic of [book, sales]) await topic.close()
      await leases.close()
      await closeRedis(redis)
      await keyUse.close()
      await database.close()
    },
  }
}
