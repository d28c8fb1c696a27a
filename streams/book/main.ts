/**
 * The role `book`: market.quotes and market.bids in; market.book-changes, market.refreshes,
 * market.quarantine and the changelog market.book out, exactly once.
 *
 * Wires the processor to the runner. Sole writer of those four topics.
 */
import { connectKafka } from '#infra/kafka/connection.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import type { ProcessorTopics } from '#streams/runner/changelog-positions.ts'
import { runProcessor } from '#streams/runner/exactly-once-runner.ts'
import { changelogPartition } from './changelog.ts'
import { openBook, openVerdictMeter } from './processor.ts'

export const bookTopics: ProcessorTopics = {
  group: 'book',
  inputs: ['quotes', 'bids'],
  changelog: 'book',
  changelogPartition,
  output: 'bookChanges',
}

export const start: StartRole = async context => {
  const kafka = connectKafka({ config: context.config, role: 'book', log: context.log })
  const catalog = await context.catalog()
  const note = openVerdictMeter(context.metrics, context.log)
  return runProcessor(context, kafka, {
    ...bookTopics,
    open: (topic, partition) =>
      openBook(kafka.codec, topic, changelogPartition(topic, partition), catalog.lookup, note),
  })
}
