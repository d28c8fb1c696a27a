/**
 * The role `feed`: market.book-changes in, Server-Sent Events out.
 *
 * Mounts /feed and /v1/feed on the process's HTTP host, where it shares the API's origin when both run
 * in one process. Reads keys from Postgres and names from the catalog; counts connects in Redis. Any number of
 * gateway processes may run concurrently: connections of a key are counted over all of them.
 */
import { loadProviders } from '#infra/config/providers.ts'
import { loadAddressLimit, loadTiers } from '#infra/config/tiers.ts'
import type { Credential } from '#infra/http/credential.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { openAddressLimit } from '#infra/redis/address-limit.ts'
import { openExpiringTokens } from '#infra/redis/expiring-tokens.ts'
import { closeRedis, openRedis, type Redis } from '#infra/redis/redis.ts'
import { openRequestMeter } from '#infra/redis/request-meter.ts'
import { openStreamLeases } from '#infra/redis/stream-leases.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import type { RoleContext, RunningRole, StartRole } from '#infra/runtime/role.ts'
import { openClientOf } from '#infra/runtime/trusted-proxies.ts'
import { permits } from '#schemas/api/scopes.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { openKeyUse } from '#services/accounts/access/commands.ts'
import { openKeyDirectory } from '#services/accounts/access/reader.ts'
import { openRefusalWatch } from '#services/accounts/audit/commands.ts'
import { openLiveReader } from '#streams/live-view/reader.ts'
import { openConcurrencyLimit } from './concurrency-limit.ts'
import { openItemText } from './frames.ts'
import { type Gateway, openGateway } from './gateway.ts'
import { followLog, type LogFollower } from './log-follower.ts'
import { openEventIds } from './log-position.ts'
import { openLogReader } from './log-reader.ts'
import { openFeedMetrics } from './metrics.ts'
import { openFeedHandler } from './routes.ts'
import { openSnapshots } from './snapshot.ts'
import { LOG_READERS_MAX } from './subscribe.ts'
import { type FeedWindow, loadWindow, openFeedWindow } from './window.ts'

const KEY_CONNECTIONS = 2
/** How long a feed token may be opened first (DECISIONS.md, "Feeds"). */
const TOKEN_MS = 5 * 60_000

/** What a gateway allows at once, and keeps. */
export interface FeedLimits {
  /** Streams that are not live yet: each may have some hundred kilobytes unread. */
  starting: number
  /** Each has a connection to Kafka and a fetch of its own. */
  replays: number
  windowBytes: number
}

/** Starts the feed. */
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
  const topicId = await topicIds.idOf('bookChanges')
  const ids = openEventIds(signingKey(config.cursorKey), `${config.namespace}|${topicId}`, ITEM_PARTITIONS)
  const items = { itemOf: catalog.byId, itemText: openItemText() }
  const kafka = connectKafka({ config, role: 'feed', log })
  const mayListen = ({ tier, scopes }: Credential) => tiers[tier].feed_connections > 0 && permits(scopes, 'feeds')
  const live = await openLive({ ...items, ids, metrics, log, mayListen }, limits.windowBytes, begin =>
    followLog({ kafka, ids: topicIds, metrics, fail, begin }),
  )
  const { window, gateway, follower } = live
  const history = openLogReader(kafka, metrics)
  const ending = new AbortController()
  const loaded = loadWindow(window, { log: history, ...items }, ending.signal).catch(error =>
    log.warn({ err: error }, 'the newest changes could not be loaded; older positions are read from the log'),
  )
  const unavailable = () => (context.signal.aborted ? 'the feed is stopping' : follower.unavailable())
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
    starts: {
      ...{ ...items, window, ids, log: history },
      snapshots: openSnapshots({ live: liveView, topicId, items: catalog.items, ...items }),
      starting: openConcurrencyLimit(limits.starting, acquired => metrics.catchingUp.set(acquired)),
      logReaders: openConcurrencyLimit(LOG_READERS_MAX, acquired => metrics.logReaders.set(acquired)),
    },
    replays: {
      ...items,
      openReader: () => openLogReader(kafka, metrics),
      concurrency: openConcurrencyLimit(limits.replays),
    },
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
      ending.abort()
      await gateway.stop()
      await loaded
      await history.close()
      await follower.stop()
      await leases.close()
      await closeRedis(redis)
      await keyUse.close()
      await database.close()
    },
  }
}

/** The window and the gateway of a log that is followed from its end. */
async function openLive(
  options: Omit<Parameters<typeof openGateway>[0], 'window'>,
  windowBytes: number,
  follow: (begin: Parameters<typeof followLog>[0]['begin']) => Promise<LogFollower>,
): Promise<{ window: FeedWindow; gateway: Gateway; follower: LogFollower }> {
  let opened: { window: FeedWindow; gateway: Gateway } | undefined
  const follower = await follow(position => {
    const window = openFeedWindow(windowBytes, position)
    const gateway = openGateway({ ...options, window })
    opened = { window, gateway }
    return {
      deliver: gateway.deliver,
      advance(reached) {
        window.advance(reached)
        options.metrics.window.set(window.size())
      },
    }
  })
  if (!opened) throw new Error('the log was followed from nowhere')
  return { ...opened, follower }
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
