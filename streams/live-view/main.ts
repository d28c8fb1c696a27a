/**
 * The role `live-view`: market.book-changes to the live tables in Redis, and those to stored snapshots.
 *
 * Consumer group `live-view`. A partition without a usable head is built from the book's changelog before
 * it is served, and readers see no head until then. Invariant: two owners never both write a partition.
 */
import { loadProviders } from '#infra/config/providers.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { runSink } from '#streams/runner/sink-runner.ts'
import { openTable } from './open-table.ts'
import { openRebuilder } from './rebuild.ts'
import { openLiveSink } from './sink.ts'
import { openSnapshotBuilder } from './snapshot-builder.ts'

/** Compressed; some ten thousand changes, which is one write to Redis of some ten milliseconds. */
const FETCH_BYTES = 2 ** 18

/** Starts the role. */
export const start: StartRole = async context => {
  const { config } = context
  const prefix = config.namespace
  const log = context.log.child({ role: 'live-view' })
  const kafka = connectKafka({ config, role: 'live-view', log })
  const reader = await openRangeReader(kafka, [kafka.topicName('bookChanges'), kafka.topicName('book')])
  const redis = await openRedis(config, { name: `${prefix}live-view`, log })
  const rebuilder = openRebuilder({ kafka, reader, ids: await context.topicIds(), redis, prefix })
  const snapshots = openSnapshotBuilder({
    redis,
    log,
    metrics: context.metrics,
    baseUrl: config.baseUrl,
    registry: config.providersFile ? loadProviders(config.providersFile) : loadProviders(),
    catalog: context.catalog(),
  })
  const running = await runSink(context, kafka, {
    group: 'live-view',
    topics: ['bookChanges'],
    maxBytesPerPartition: FETCH_BYTES,
    async open({ partition }, { faultOf }) {
      const table = { partition, prefix }
      const { rebuiltFor, deleted, ...owned } = await openTable({ redis, rebuilder, faultOf }, table)
      const opened = { partition, next: owned.head.next, deleted }
      if (rebuiltFor === undefined) log.info(opened, 'a partition of the live view is open')
      else log.warn({ ...opened, rebuiltFor }, 'a partition of the live view was built again and is open')
      return openLiveSink(redis, table, owned, snapshots.open(table, owned))
    },
  })
  return {
    ...running,
    async stop() {
      await running.stop()
      await closeRedis(redis)
      await reader.close()
    },
  }
}
