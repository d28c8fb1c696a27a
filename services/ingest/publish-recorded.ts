/**
 * What others may publish in the name of ingest without being a role: recorded refreshes, and the
 * exchange rates for a market that no ingestor feeds.
 *
 * The room's entry for the command line. Opens and closes its own way to Kafka; writes market.quotes,
 * market.bids and market.fx. Invariant: when a function here resolves, the log holds everything.
 */
import { loadProviders } from '#infra/config/providers.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { openPublisher } from '#infra/kafka/publisher.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import { publishRatesOnce } from './fx/publish-rates.ts'
import { rateSources } from './fx/source.ts'
import { ingestRecorded, type RecordedIngest, type RecordedTotals } from './ingest-recorded.ts'

/** What to publish, and how to tell of it. */
export type RecordedFolder = Pick<RecordedIngest, 'provider' | 'dir' | 'side' | 'say' | 'signal'>

/** Publishes the current exchange rates once. */
export async function publishCurrentRates(config: PlatformConfig, log: Log, signal: AbortSignal): Promise<void> {
  await publishing(config, log, signal, async () => undefined)
}

/** Publishes the current exchange rates and a directory of recorded refreshes at those rates. */
export function publishRecorded(config: PlatformConfig, log: Log, folder: RecordedFolder): Promise<RecordedTotals> {
  return publishing(config, log, folder.signal, means =>
    ingestRecorded({ ...folder, ...means, providers: loadProviders(config.providersFile) }),
  )
}

async function publishing<Result>(
  config: PlatformConfig,
  log: Log,
  signal: AbortSignal,
  work: (means: Pick<RecordedIngest, 'kafka' | 'publisher' | 'rates'>) => Promise<Result>,
): Promise<Result> {
  const kafka = connectKafka({ config, role: 'ingest-outside', log })
  const publisher = await openPublisher(kafka, 'ingest')
  try {
    const rates = await publishRatesOnce({
      ...rateSources(config.fxUrl),
      codec: kafka.codec,
      publisher,
      log,
      metrics: openMetrics(),
      signal,
    })
    return await work({ kafka, publisher, rates })
  } finally {
    await publisher.close()
  }
}
