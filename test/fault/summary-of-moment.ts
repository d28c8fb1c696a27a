/**
 * A summary of the market for one moment, made in this process as `market-summary` makes it.
 *
 * Reads a platform's views and writes its market.summaries. The role itself takes the moment from the clock; here it is
 * an argument, so that two summaries can be compared. Invariant: the zone holds for all that is computed, and for
 * nothing after.
 */
import { openReader } from '#infra/clickhouse/clickhouse.ts'
import { loadAnalytics } from '#infra/config/analytics.ts'
import { loadProviders } from '#infra/config/providers.ts'
import { loadSupply } from '#infra/config/supply.ts'
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { openPublisher } from '#infra/kafka/publisher.ts'
import { openLease } from '#infra/redis/lease.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { openLiveReader } from '#streams/live-view/reader.ts'
import { openAnalyst } from '#streams/market-summary/analyst.ts'
import { Board } from '#streams/market-summary/board.ts'
import { followMarket } from '#streams/market-summary/follow-market.ts'
import { openViewWriter } from '#streams/market-summary/sink.ts'
import { openSummaryLog } from '#streams/market-summary/summary-log.ts'
import { marketLeaseKey } from '#streams/market-summary/table.ts'
import { openHealthReader } from '#streams/provider-health/reader.ts'
import type { TestPlatform } from '#test/harness/test-platform.ts'

const LEASE_MS = 60_000

/** Publishes the summary of a moment, computed in a time zone. */
export async function summariseAt(
  platform: TestPlatform,
  kafka: KafkaConnection,
  { asOf, zone }: { asOf: number; zone: string },
): Promise<void> {
  const { config, log } = platform
  const prefix = config.namespace
  const redis = await platform.openRedis()
  const clickhouse = openReader(config.servers.clickhouse, { database: databaseName(prefix), name: 'test' })
  const publisher = await openPublisher(kafka, 'market-summary')
  const catalog = await openCatalogReader(kafka)
  const stop = new AbortController()
  const zoneBefore = process.env.TZ
  process.env.TZ = zone
  try {
    const registry = loadProviders()
    const keysOf = { ask: registry.askKeys, bid: registry.bidKeys }
    const board = new Board(keysOf)
    const live = openLiveReader(redis, prefix, keysOf)
    await followMarket(board, { kafka, live, log, signal: stop.signal })
    const lease = openLease(redis, marketLeaseKey(prefix), LEASE_MS)
    await lease.hold()
    const analyst = openAnalyst({
      board,
      clickhouse,
      registry,
      catalog,
      health: openHealthReader(redis, prefix),
      analytics: loadAnalytics(),
      supply: loadSupply(),
      views: openViewWriter(redis, lease, prefix),
      log: await openSummaryLog(kafka, publisher),
    })
    await analyst.summary(asOf)
    await lease.release()
  } finally {
    if (zoneBefore === undefined) delete process.env.TZ
    else process.env.TZ = zoneBefore
    stop.abort()
    await catalog.close()
    await publisher.close()
    await clickhouse.close()
  }
}
