/**
 * The role `feed`: market.book-changes and market.sales in, Server-Sent Events out.
 *
 * Mounts /feed and /v1/feed on the process's HTTP host, where it shares the API's origin when both run
 * in one process. Reads keys from Postgres and names from the catalog; counts connects in Redis. Any number of
 * gateway processes may run concurrently: connections of a key are counted over all of them.
 */
import { loadProviders } from '#infra/config/providers.ts'
import { loadAddressLimit, loadTiers } from '#infra/config/tiers.ts'
import type { Credential } from '#infra/http/credential.ts'
import { connectKafka, type KafkaConnection } from '#infra/kafka/connection.ts'
import { databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { openExpiringTokens } from '#infra/redis/expiring-tokens.ts'
import { openAddressLimit } from '#infra/redis/rate-limit.ts'
import { closeRedis, openRedis, type Redis } from '#infra/redis/redis.ts'
import { openRequestMeter } from '#infra/redis/request-meter.ts'
import { openStreamLeases } from '#infra/redis/stream-leases.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { RoleContext, RunningRole, StartRole, TopicIds } from '#infra/runtime/role.ts'
import { openClientOf } from '#infra/runtime/trusted-proxies.ts'
import { permits } from '#schemas/api/scopes.ts'
import { topics } from '#schemas/topics.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import { openKeyUse } from '#services/accounts/access/commands.ts'
import { openKeyDirectory } from '#services/accounts/access/reader.ts'
import { openRefusalWatch } from '#services/accounts/audit/commands.ts'
import { openLiveReader } from '#streams/live-view/reader.ts'
import { bookTopic, type FeedTopic, salesTopic } from './feed-topics.ts'
import { type FrameItems, openItemText } from './frames.ts'
import { type Gateway, openGateway } from './gateway.ts'
import { followLog } from './log-follower.ts'
import { openEventIds } from './log-position.ts'
import { openLogReader } from './log-reader.ts'
import { type FeedMetrics, openFeedMetrics } from './metrics.ts'
import { openFeedHandler } from './routes.ts'
import { openSnapshots } from './snapshot.ts'
import { LOG_READERS_MAX, openConcurrencyLimit } from './subscribe.ts'
import { type FeedWindow, loadWindow, openFeedWindow } from './window.ts'

const KEY_CONNECTIONS = 2
/** How long a feed token may be opened first (DECISIONS.md, "Feeds"). */
const TOKEN_MS = 5 * MINUTE_MS

/** Bounds of a gateway. */
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

/** Starts the feed within limits of its own. */
export async function startWithin(limits: FeedLimits, context: RoleContext): Promise<RunningRole> {
  const { config, log, fail } = context
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
  const topicIds = await context.topicIds()
  const items = { itemOf: catalog.byId, itemText: openItemText() }
  const kafka = connectKafka({ config, role: 'feed', log })
  const mayListen = ({ tier, scopes }: Credential) => tiers[tier].feed_connections > 0 && permits(scopes, 'feeds')
  const gateway = openGateway({ ...items, metrics, log, mayListen })
  const ending = new AbortController()
  const { windowBytes } = limits
  const parts = {
    ...{ config, kafka, topicIds, items, gateway, metrics, log, fail, windowBytes },
    signal: ending.signal,
  }
  const book = await openDelivery(bookTopic, parts)
  const sales = await openDelivery(
    salesTopic(catalog.idOf, () => metrics.unknownItems.inc()),
    parts,
  )
  const topicOf = { ask: book, bid: book, sale: sales }
  const shared = {
    ...items,
    snapshots: openSnapshots({ live: liveView, topicId: book.topicId, items: catalog.items, ...items }),
    starting: openConcurrencyLimit(limits.starting, acquired => metrics.catchingUp.set(acquired)),
    logReaders: openConcurrencyLimit(LOG_READERS_MAX, acquired => metrics.logReaders.set(acquired)),
  }
  const startsOf = ({ window, ids, history }: typeof book) => ({ ...shared, window, ids, log: history })
  const unavailable = () =>
    context.signal.aborted ? 'the feed is stopping' : (book.unavailable() ?? sales.unavailable())
  const noteRefused = openRefusalWatch(database, log, Date.now).note
  const handler = openFeedHandler({
    access: {
      keys,
      leases,
      tokens: openExpiringTokens(redis, { prefix: config.namespace, name: 'feed', ttlMs: TOKEN_MS, now: Date.now }),
      connectionsOf: ({ tier }) => tiers[tier].feed_connections,
    },
    limits: { ...limitsBy(redis, config), tiers, noteUse: id => keyUse.note(id, Date.now()), noteRefused },
    gateway,
    catalog,
    starts: { ask: startsOf(book), bid: startsOf(book), sale: startsOf(sales) },
    replays: {
      ...items,
      openReader: side => openLogReader(kafka, topicOf[side].topic, metrics),
      concurrency: openConcurrencyLimit(limits.replays),
    },
    providerKeys: registry.askKeys,
    providersOf: { ...providersOf, sale: registry.saleKeys },
    unavailable,
    metrics,
    log,
  })
  context.http.mount(['/feed', '/v1/feed'], handler)
  return {
    name: 'feed',
    ready: async () => unavailable(),
    async stop() {
      ending.abort()
      await gateway.stop()
      for (const topic of [book, sales]) await topic.close()
      await leases.close()
      await closeRedis(redis)
      await keyUse.close()
      await database.close()
    },
  }
}

interface DeliveryParts {
  config: PlatformConfig
  kafka: KafkaConnection
  topicIds: TopicIds
  items: FrameItems
  gateway: Gateway
  metrics: FeedMetrics
  log: Log
  fail(error: Error): void
  windowBytes: number
  /** Aborts when the window need not be filled any more. */
  signal: AbortSignal
}

/** Follows a topic from its end and fills its window with what came before. */
async function openDelivery(topic: FeedTopic, parts: DeliveryParts) {
  const { config, kafka, topicIds, items, gateway, metrics, log, fail } = parts
  const { name, partitions } = topics[topic.key]
  const topicId = await topicIds.idOf(topic.key)
  const ids = openEventIds(signingKey(config.cursorKey), `${config.namespace}|${topicId}`, partitions)
  const opened = Promise.withResolvers<FeedWindow>()
  const follower = await followLog({
    ...{ kafka, topic, ids: topicIds, metrics, fail },
    begin(position) {
      const window = openFeedWindow(parts.windowBytes, position)
      opened.resolve(window)
      return {
        deliver: batch => gateway.deliver(batch, { window, ids }),
        advance(reached) {
          window.advance(reached)
          metrics.window.set({ topic: name }, window.size())
        },
      }
    },
  })
  const window = await opened.promise
  const history = openLogReader(kafka, topic, metrics)
  const loaded = loadWindow(window, { log: history, ...items }, parts.signal).catch(error =>
    log.warn({ err: error }, `the newest of ${name} could not be loaded; older positions are read from the log`),
  )
  return {
    ...{ topic, topicId, ids, window, history },
    unavailable: follower.unavailable,
    async close() {
      await loaded
      await history.close()
      await follower.stop()
    },
  }
}

function signingKey(cursorKey: string | undefined): string {
  if (cursorKey === undefined)
    throw new Error('CURSOR_KEY is not set; it is the same secret for all gateways and the API')
  return cursorKey
}

/** Counts requests in the same windows as the API does. */
function limitsBy(redis: Redis, { namespace: prefix, tiersFile, clients }: PlatformConfig) {
  return {
    meter: openRequestMeter(redis, { prefix, now: Date.now }),
    addresses: openAddressLimit(redis, { prefix, perMinute: loadAddressLimit(tiersFile) }),
    clientOf: openClientOf(clients.trustedProxies),
  }
}
