/**
 * Publishes recorded refreshes, a history file, and exchange rates once, for the command line.
 *
 * Writes market.quotes, market.bids, market.day-closes and market.fx, and resolves only when the log has acknowledged everything.
 * A source has one writer: recorded refreshes are refused while a process runs the source, and a process that starts later fences
 * this writer. Publishing a history file again leaves every view as it is.
 */
import type { Provider } from '#infra/config/providers.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { runningWork } from '#infra/kafka/ownership.ts'
import type { Outgoing, Publisher } from '#infra/kafka/publisher.ts'
import { isFenced } from '#infra/kafka/transactional-producer.ts'
import { type DayClosed, dayClosed } from '#schemas/events/day-closed.ts'
import { topics } from '#schemas/topics.ts'
import { readMarketText } from '#schemas/values/market-text.ts'
import { listRecorded, readRecorded } from './connectors/recorded/client.ts'
import { priceMaxAt } from './entry.ts'
import type { RateTable } from './fx/rate-table.ts'
import { packagedRates } from './fx/rates.ts'
import { type Close, type HistoryFile, readHistoryFile } from './history-file.ts'
import { keyOf } from './positions.ts'
import { openPortions, publishRefresh, type RefreshPublisher, TOPICS } from './publish-refresh.ts'
import { GROUP, openSourceProducer } from './source-writer.ts'

export { publishConfiguredRates } from './fx/rates.ts'
export { UnusableHistory } from './history-file.ts'

interface RecordedIngest {
  kafka: KafkaConnection
  provider: Provider
  dir: string
  side: 'ask' | 'bid'
  rates: RateTable
  report(line: string): void
  signal: AbortSignal
}

/** A running process owns the source that was to be written. */
export class SourceIsRun extends Error {}

const REPORT_EVERY_MS = 2_000

/**
 * Publishes all recorded files of a directory in time order; throws SourceIsRun. A file that cannot be read becomes a RefreshFailed event
 * and a line, and does not stop the others. Resolves with how many refreshes were published whole, their observations and rejected
 * entries, and how many failed.
 */
export async function ingestRecorded(options: RecordedIngest) {
  const { kafka, provider, side } = options
  const source = { provider: provider.key, side }
  const what = `the ${side}s of ${provider.key}`
  if ((await runningWork(kafka, GROUP)).has(keyOf(source)))
    throw new SourceIsRun(`a running ingest process polls ${what}: stop it, or take the feed out of its market, first`)
  await kafka.codec.prepare([...topics[TOPICS[side]].events])
  const producer = await openSourceProducer(kafka, keyOf(source))
  try {
    return await publishFiles(options, { codec: kafka.codec, send: producer.commit, portions: openPortions() })
  } catch (error) {
    if (!isFenced(error)) throw error
    throw new SourceIsRun(`another process has begun to publish ${what}; the rest is left out`, { cause: error })
  } finally {
    await producer.close()
  }
}

async function publishFiles(
  { provider: { key: provider, default_currency: currency }, dir, side, rates, report, signal }: RecordedIngest,
  publisher: RefreshPublisher,
) {
  const totals = { refreshes: 0, observations: 0, rejected: 0, failed: 0 }
  const files = await listRecorded(dir)
  let reportedAt = performance.now()
  for (const [done, { path, observedAt }] of files.entries()) {
    signal.throwIfAborted()
    if (performance.now() - reportedAt > REPORT_EVERY_MS) {
      reportedAt = performance.now()
      report(`${done} of ${files.length} files, ${totals.observations} observations`)
    }
    const refresh = await readRecorded(path, currency, observedAt)
    const published = await publishRefresh(publisher, { provider, side }, refresh, rates, signal)
    signal.throwIfAborted()
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
  return totals
}

interface HistoryIngest {
  kafka: KafkaConnection
  publisher: Publisher
  file: string
  /** Whose closes they are, once it is known in which currency. */
  providerOf(currency: string): string
  report(line: string): void
  signal: AbortSignal
}

const PORTION = 5_000

/**
 * Publishes a history file; throws UnusableHistory when it is none or has no usable row. Each close carries the one before it in
 * the file, and the last of a name is marked, so readers do not carry a price beyond the file. `rejected`: reason → rows left out.
 */
export async function ingestHistory(options: HistoryIngest) {
  const { kafka, publisher, report, signal } = options
  const onRows = (rows: number) => report(`reading: ${rows.toLocaleString('en')} rows`)
  const read = await readHistoryFile(options.file, onRows, signal)
  const rejected = new Map<string, number>(read.rejected)
  const provider = options.providerOf([...read.closes.values()][0]?.[0]?.currency ?? '')
  const total = [...read.closes.values()].reduce((sum, closes) => sum + closes.length, 0)
  await kafka.codec.prepare([dayClosed])
  let portion: Outgoing[] = []
  let closes = 0
  const send = async (): Promise<void> => {
    signal.throwIfAborted()
    await publisher.send(portion)
    closes += portion.length
    portion = []
    report(`publishing: ${Math.floor((100 * closes) / total)} % of ${total.toLocaleString('en')} closes`)
  }
  for (const event of eventsOf(read, provider, await packagedRates(), rejected)) {
    portion.push({ topic: 'dayCloses', key: event.market_hash_name, value: kafka.codec.encode(dayClosed, event) })
    if (portion.length >= PORTION) await send()
  }
  if (portion.length > 0) await send()
  return { provider, names: read.closes.size, closes, rejected }
}

/** The events of a file; a close whose currency has no rate, or that is too large at it, is counted as rejected. */
function* eventsOf(
  { closes }: HistoryFile,
  provider: string,
  rates: RateTable,
  rejected: Map<string, number>,
): Generator<DayClosed> {
  const reject = (reason: string): void => void rejected.set(reason, (rejected.get(reason) ?? 0) + 1)
  for (const [text, all] of closes) {
    const { name, phase } = readMarketText(text)
    let before: Close | undefined
    for (const [i, close] of all.entries()) {
      const rate = rates.rateOf(close.currency)
      if (!rate || close.price > priceMaxAt(rate)) {
        reject(rate ? 'price_too_large' : 'currency_unknown')
        continue
      }
      const isContinued = before?.currency === close.currency
      yield {
        provider,
        market_hash_name: name,
        phase,
        day: close.day,
        price: close.price,
        currency: close.currency,
        usd_rate: rate.text,
        listings: close.listings,
        previous_price: isContinued ? (before?.price ?? null) : null,
        previous_listings: isContinued ? (before?.listings ?? null) : null,
        is_last: i === all.length - 1,
      }
      before = close
    }
  }
}
