/**
 * The role `history`: market.book-changes to single changes and daily closes in ClickHouse, and the closes of
 * history files (market.day-closes) to the latter.
 *
 * Consumer group `history`. Scales out by partitions; all partitions of a process share one batcher.
 */
import { openBatcher } from '#infra/clickhouse/batcher.ts'
import { openWriter } from '#infra/clickhouse/clickhouse.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { followNameIndex } from '#schemas/values/market-text.ts'
import { runSink } from '#streams/runner/sink-runner.ts'
import { type IdOf, openDayCloseSink } from './day-closes.ts'
import { openHistorySink } from './sink.ts'

/** Compressed; some ten thousand changes of each partition, so that a fetch of all fills a batch and no more. */
const FETCH_BYTES = 2 ** 18

/** Starts the role. */
export const start: StartRole = async context => {
  const { config, metrics } = context
  const log = context.log.child({ role: 'history' })
  const kafka = connectKafka({ config, role: 'history', log })
  const database = databaseName(config.namespace)
  const writer = openWriter(config.servers.clickhouse, { database, name: 'marketlog-history' })
  const batcher = openBatcher(writer, { log, metrics })
  let names: Promise<IdOf> | undefined
  // Read when the first partition with names is opened: the catalog of a process is shared.
  const idOf = (): Promise<IdOf> => {
    names ??= context.catalog().then(catalog => followNameIndex(() => catalog.items()))
    return names
  }
  const running = await runSink(context, kafka, {
    group: 'history',
    mergesByOffset: true,
    topics: ['bookChanges', 'dayCloses'],
    maxBytesPerPartition: FETCH_BYTES,
    open: async topic => (topic === 'dayCloses' ? openDayCloseSink(batcher, await idOf()) : openHistorySink(batcher)),
  })
  return {
    ...running,
    async stop() {
      await running.stop()
      await batcher.close()
      await writer.close()
    },
  }
}
