/**
 * The role `alert-triggers`: market.book-changes, accounts.alert-rules and market.fx to alerts.triggered.
 *
 * Consumer group `alert-triggers` on the changes; the owner of a partition of them follows the same partition of the rules, and
 * every process follows the rates. Writes nothing else: its state is read from the log whenever a partition opens.
 */
import { connectKafka } from '#infra/kafka/connection.ts'
import { openPublisher } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { topics } from '#schemas/topics.ts'
import { runSink } from '#streams/runner/sink-runner.ts'
import { openRateFeed } from './rates.ts'
import { openRowReader } from './rows.ts'
import { OPENING_BYTES, openTriggerSink } from './sink.ts'

const GROUP = 'alert-triggers'
/** Small batches: triggers are sent when their batch has been folded. */
const FETCH_BYTES = 2 ** 17

export const start: StartRole = async context => {
  const { config, metrics, fail } = context
  const kafka = connectKafka({ config, role: GROUP, log: context.log.child({ role: GROUP }) })
  await kafka.codec.prepare([...topics.alertRules.events, ...topics.fx.events, ...topics.book.events])
  const read = (['alertRules', 'bookChanges', 'book'] as const).map(kafka.topicName)
  const reader = await openRangeReader(kafka, read, { fetchBytes: OPENING_BYTES })
  const publisher = await openPublisher(kafka, GROUP)
  const ids = await context.topicIds()
  const rates = await openRateFeed(kafka, ids, fail)
  const readRows = openRowReader({ kafka, reader, ids })
  const parts = { kafka, ids, reader, publisher, readRows, rates, metrics, fail }
  const running = await runSink(context, kafka, {
    group: GROUP,
    topics: ['bookChanges'],
    maxBytesPerPartition: FETCH_BYTES,
    open: ({ partition }) => openTriggerSink(parts, partition),
  })
  return {
    ...running,
    async stop() {
      await running.stop()
      await rates.close()
      await publisher.close()
      await reader.close()
    },
  }
}
