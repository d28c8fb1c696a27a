/**
 * Publishes a directory of recorded refreshes, for `marketlog ingest recorded`.
 *
 * Reads the files, writes market.quotes or market.bids as the feed's only writer. Resolves only when the log has acknowledged
 * everything; a file that cannot be read becomes a RefreshFailed event and a line, and does not stop the others. The caller
 * decides the exit code. Invariant: a feed has one writer: the command is refused while a process runs the feed, and a process
 * that starts later fences this writer.
 */
import type { ProviderRegistry } from '#infra/config/providers.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { runningWork } from '#infra/kafka/ownership.ts'
import { isFenced, type TransactionalProducer } from '#infra/kafka/transactional-producer.ts'
import { topics } from '#schemas/topics.ts'
import { listRecorded, readRecorded } from './connectors/recorded/client.ts'
import { GROUP, openFeedProducer } from './feed-writer.ts'
import type { RateTable } from './fx/rate-table.ts'
import { keyOf } from './positions.ts'
import { type Published, publishFailure, publishRefresh, TOPICS } from './publish-refresh.ts'
import { openRefreshPublisher } from './refresh-publisher.ts'

/** What is to be published, and by what means. */
export interface RecordedIngest {
  kafka: KafkaConnection
  providers: ProviderRegistry
  provider: string
  dir: string
  side: 'ask' | 'bid'
  rates: RateTable
  /** Receives one line of progress or failure. */
  report(line: string): void
  signal: AbortSignal
}

/** Totals of an ingest: whole refreshes, their observations and rejected entries, and refreshes that failed. */
export interface RecordedTotals {
  refreshes: number
  observations: number
  rejected: number
  failed: number
}

/** A running process owns the feed that was to be written. */
export class FeedIsRun extends Error {}

const REPORT_EVERY_MS = 2_000

/** Publishes all recorded files of a directory in time order; throws for an unknown provider or directory, and FeedIsRun. */
export async function ingestRecorded(options: RecordedIngest): Promise<RecordedTotals> {
  const { dir, kafka } = options
  const provider = options.providers.byKey.get(options.provider)
  if (!provider) {
    throw new Error(
      `no provider is called ${options.provider}; the providers file knows ${options.providers.all.length}`,
    )
  }
  const feed = { provider: provider.key, side: options.side }
  const what = `the ${feed.side}s of ${feed.provider}`
  const files = await listRecorded(dir)
  if (files.length === 0) throw new Error(`${dir} holds no .json.gz or .json file`)
  if ((await runningWork(kafka, GROUP)).has(keyOf(feed)))
    throw new FeedIsRun(`a running ingest process polls ${what}: stop it, or take the feed out of its market, first`)
  await kafka.codec.prepare([...topics[TOPICS[feed.side]].events])
  const producer = await openFeedProducer(kafka, keyOf(feed))
  try {
    return await publishFiles(options, { ...feed, currency: provider.default_currency }, files, producer)
  } catch (error) {
    if (!isFenced(error)) throw error
    throw new FeedIsRun(`another process has begun to publish ${what}; the rest is left out`, { cause: error })
  } finally {
    await producer.close()
  }
}

async function publishFiles(
  { kafka, rates, report, signal }: RecordedIngest,
  feed: { provider: string; side: 'ask' | 'bid'; currency: string },
  files: Awaited<ReturnType<typeof listRecorded>>,
  producer: TransactionalProducer,
): Promise<RecordedTotals> {
  const refreshPublisher = openRefreshPublisher(kafka.codec, { send: records => producer.commit(records) })
  const totals: RecordedTotals = { refreshes: 0, observations: 0, rejected: 0, failed: 0 }
  let reportedAt = performance.now()
  for (const [done, file] of files.entries()) {
    signal.throwIfAborted()
    if (performance.now() - reportedAt > REPORT_EVERY_MS) {
      reportedAt = performance.now()
      report(`${done} of ${files.length} files, ${totals.observations} observations`)
    }
    const read = await readRecorded(file.path, feed.currency, file.observedAt)
    const published =
      read.kind === 'failed'
        ? await publishFailure(refreshPublisher, feed, read)
        : await publishRefresh(refreshPublisher, feed, read, rates, signal)
    signal.throwIfAborted()
    count(totals, published, file.path, report)
  }
  return totals
}

function count(totals: RecordedTotals, published: Published, path: string, report: (line: string) => void): void {
  if (published.result === 'failed') {
    totals.failed++
    report(`${path}: ${published.reason}: ${published.detail}`)
  } else if (published.result === 'completed') {
    const rejected = [...published.rejected.values()].reduce((sum, one) => sum + one, 0)
    totals.refreshes++
    totals.observations += published.observed
    totals.rejected += rejected
    if (rejected > 0) report(`${path}: ${rejected} entries rejected: ${[...published.rejected.keys()].join(', ')}`)
  }
}
