/**
 * Publishes a history file, for `marketlog ingest history`.
 *
 * Reads the file, writes market.day-closes. Invariant: resolves only when the log has acknowledged everything;
 * publishing a file again leaves every view as it is. Each close carries the one before it in the file, and the last of a
 * name is marked, so readers do not carry a price beyond the file. Names are split into name and phase here; the readers of
 * the topic resolve them to items.
 */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Outgoing, Publisher } from '#infra/kafka/publisher.ts'
import { type DayClosed, dayClosed } from '#schemas/events/day-closed.ts'
import { readMarketText } from '#schemas/values/market-text.ts'
import { priceMaxAt } from '../entry.ts'
import type { RateTable } from '../fx/rate-table.ts'
import { type Close, type HistoryFile, readHistoryFile } from './read.ts'

/** What is to be published, and by what means. */
export interface HistoryIngest {
  kafka: KafkaConnection
  /** Opened for the writer `ingest`. */
  publisher: Publisher
  file: string
  /** Whose closes they are, once it is known in which currency. */
  providerOf(currency: string): string
  rates: RateTable
  onProgress(progress: HistoryProgress): void
  signal: AbortSignal
}

/** How far an ingest is. */
export interface HistoryProgress {
  step: 'reading' | 'publishing'
  done: number
  /** Unknown while reading. */
  total: number | undefined
}

/** What was published. */
export interface HistoryTotals {
  provider: string
  names: number
  closes: number
  /** Reason → rows that were left out. */
  rejected: ReadonlyMap<string, number>
}

const PORTION = 5_000

/** Publishes a file; throws when it is none or has no usable row. */
export async function ingestHistory(options: HistoryIngest): Promise<HistoryTotals> {
  const { kafka, publisher, rates, onProgress, signal } = options
  const read = await readHistoryFile(
    options.file,
    done => onProgress({ step: 'reading', done, total: undefined }),
    signal,
  )
  const rejected = new Map<string, number>(read.rejected)
  const provider = options.providerOf([...read.closes.values()][0]?.[0]?.currency ?? '')
  const total = [...read.closes.values()].reduce((sum, closes) => sum + closes.length, 0)
  await kafka.codec.prepare([dayClosed])
  let portion: Outgoing[] = []
  let sent: Promise<void> = Promise.resolve()
  let done = 0
  const send = async (): Promise<void> => {
    await sent
    signal.throwIfAborted()
    done += portion.length
    onProgress({ step: 'publishing', done, total })
    sent = publisher.send(portion)
    // Awaited before the next portion is sent; until then a failure must not count as unhandled.
    sent.catch(() => undefined)
    portion = []
  }
  for (const event of eventsOf(read, provider, rates, rejected)) {
    portion.push({ topic: 'dayCloses', key: event.market_hash_name, value: kafka.codec.encode(dayClosed, event) })
    if (portion.length >= PORTION) await send()
  }
  if (portion.length > 0) await send()
  await sent
  return { provider, names: read.closes.size, closes: done, rejected }
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
