/**
 * Publishes one refresh: its entries in bounded portions, then the record that completes it.
 *
 * Writes market.quotes, market.bids or market.sales, and market.feeds. Invariant: indexes run from 0 without gaps,
 * rejected entries included; RefreshCompleted is sent only after all that it counts; a refresh cut
 * short by the signal is never completed, so `book` drops it. A sale that the list before held is not published again. Of
 * one refresh two portions at most are in memory: one on its way, one being made.
 */
import PQueue from 'p-queue'
import type { Codec } from '#infra/kafka/codec.ts'
import type { Outgoing, Publisher } from '#infra/kafka/publisher.ts'
import type { EventSchema } from '#schemas/events/event.ts'
import type { FeedAdvanced, FeedSide } from '#schemas/events/feed-advanced.ts'
import {
  askObserved,
  bidObserved,
  type Observation,
  observationRejected,
  refreshCompleted,
  refreshFailed,
} from '#schemas/events/observation.ts'
import { saleObserved } from '#schemas/events/sale-observed.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { partitionOf } from '#schemas/values/partition.ts'
import { type EntryFault, entryFault, judgedEntry, nameOf, priceMaxAt, rawText } from './entry.ts'
import type { RateTable } from './fx/rate-table.ts'
import type { Positions } from './positions.ts'
import { judgeSale, type SeenSales } from './sale.ts'
import { openSaleList, SALES_MAX, type SaleList } from './sale-list.ts'
import type { FailedRefresh, RawEntry, RawSale, Refresh, Source } from './source.ts'

export type Published =
  | { result: 'completed'; observed: number; rejected: ReadonlyMap<EntryFault, number> }
  | { result: 'failed'; reason: string; detail: string }
  | { result: 'cut' }

export const TOPICS: Record<FeedSide, TopicKey> = { ask: 'quotes', bid: 'bids', sale: 'sales' }

/** Records of one send. The sales of a list are one, as its position is sent with the last: a kill in between would repeat the others. */
const PORTIONS: Record<FeedSide, number> = { ask: 2_000, bid: 2_000, sale: SALES_MAX }
const OBSERVED: Record<'ask' | 'bid', EventSchema<Observation>> = { ask: askObserved, bid: bidObserved }

/** Undefined for what need not be published. */
type Encode = (entry: RawEntry, index: number) => Buffer | undefined

/** Writes the refreshes of a source to Kafka. */
export interface RefreshPublisher {
  codec: Codec
  publisher: Pick<Publisher, 'send'>
  /** Acquires the right to prepare a portion; the caller releases it once the portion is acknowledged or dropped. */
  acquire(): Promise<() => void>
}

/**
 * Portions that are prepared at once: one on its way, one ready behind it, one being made. More only take memory and the event loop's
 * time: 60 sources that were due together blocked everything for 0.7 s. A source holds two at most, so two is the least.
 */
const PORTIONS_MAX = 3

/** Opens what makes the publishers of a process; their portions are granted in the order in which they were asked for. */
export function openRefreshPublisher(codec: Codec): (publisher: Pick<Publisher, 'send'>) => RefreshPublisher {
  const portions = new PQueue({ concurrency: PORTIONS_MAX })
  // A task runs until its caller releases it.
  const acquire = () => new Promise<() => void>(grant => void portions.add(() => new Promise<void>(grant)))
  return publisher => ({ codec, publisher, acquire })
}

/**
 * Publishes a refresh, or that it could not be fetched or read; resolves when the log holds all of it. `cut` ends it at a record's
 * boundary. The position to which it leads goes in one send with its last record; without `positions` none is stored, and no sale
 * counts as published.
 */
export async function publishRefresh(
  publisher: RefreshPublisher,
  source: Source,
  refresh: Refresh | FailedRefresh,
  rates: RateTable,
  cut: AbortSignal,
  positions?: Pick<Positions, 'nextSaleList' | 'recordsOf' | 'advance'>,
): Promise<Published> {
  if (refresh.kind === 'failed') return publishFailure(publisher, source, refresh)
  const { currency, observedAt } = refresh
  const rate = rates.rateOf(currency)
  if (!rate) {
    const detail = `no exchange rate of ${JSON.stringify(currency.slice(0, 20))}`
    return publishFailure(publisher, source, { observedAt, reason: 'unknown_currency', detail })
  }
  const { provider, side } = source
  const { codec } = publisher
  const rejected = new Map<EntryFault, number>()
  const sales = positions?.nextSaleList(source) ?? openSaleList(null, () => undefined)
  const priceMax = priceMaxAt(rate)
  const encode =
    side === 'sale'
      ? saleEncoder(codec, provider, refresh, { usdRate: rate.text, priceMax, sales }, rejected)
      : offerEncoder(codec, { provider, side }, refresh, priceMax, rejected)
  const completion = (total: number): Outgoing => {
    const about = { provider, refresh_id: refreshId(observedAt), observed_at: observedAt }
    const value = codec.encode(refreshCompleted, { ...about, count: total, currency, usd_rate: rate.text })
    return { topic: TOPICS[side], key: provider, value }
  }
  const position = (): FeedAdvanced => ({ side, provider, observed_at: observedAt, sale_hashes: sales.hashes() })
  const count = await publishEntries(publisher, source, refresh.entries, encode, cut, total => [
    ...(side === 'sale' ? [] : [completion(total)]),
    ...(positions?.recordsOf(position()) ?? []),
  ])
  if (count === undefined) return { result: 'cut' }
  positions?.advance(position())
  const rejectedCount = [...rejected.values()].reduce((sum, one) => sum + one, 0)
  return { result: 'completed', observed: count - rejectedCount, rejected }
}

async function publishFailure(
  { codec, publisher }: RefreshPublisher,
  { provider, side }: Source,
  { observedAt, reason, detail }: Omit<FailedRefresh, 'kind'>,
): Promise<Published> {
  const event = { provider, observed_at: observedAt, reason, detail: detail.slice(0, 500).toWellFormed() }
  await publisher.send([{ topic: TOPICS[side], key: provider, value: codec.encode(refreshFailed, event) }])
  return { result: 'failed', reason, detail }
}

/** The partition of a source's records, which decides its owner: a partition's owner runs all sources in it. */
export const partitionOfSource = ({ provider, side }: Source): number =>
  partitionOf(provider, topics[TOPICS[side]].partitions)

/** Names a refresh by its time: `20260303T213430549Z`. */
export const refreshId = (observedAt: number): string => new Date(observedAt).toISOString().replace(/[-:.]/g, '')

async function publishEntries(
  { publisher, acquire }: RefreshPublisher,
  source: Source,
  entries: Iterable<RawEntry>,
  encode: Encode,
  cut: AbortSignal,
  ending: (count: number) => readonly Outgoing[],
): Promise<number | undefined> {
  const topic = TOPICS[source.side]
  const key = source.provider
  const partition = partitionOfSource(source)
  let portion: Outgoing[] = []
  let sent: Promise<void> = Promise.resolve()
  let [index, count] = [0, 0]
  let release = await acquire()
  try {
    for (const entry of entries) {
      const value = encode(entry, index++)
      if (!value) continue
      if (portion.length === PORTIONS[source.side]) {
        await sent
        if (cut.aborted) return undefined
        sent = publisher.send(portion).finally(release)
        // Awaited before the next portion is sent; until then a failure must not count as unhandled.
        sent.catch(() => undefined)
        portion = []
        release = await acquire()
      }
      portion.push({ topic, key, partition, value })
      count += 1
    }
    await sent
    if (cut.aborted) return undefined
    portion.push(...ending(count))
    if (portion.length > 0) await publisher.send(portion)
    return count
  } finally {
    release()
  }
}

function offerEncoder(
  codec: Codec,
  { provider, side }: { provider: string; side: 'ask' | 'bid' },
  { observedAt, currency }: Refresh,
  priceMax: number,
  rejected: Map<EntryFault, number>,
): Encode {
  const event = OBSERVED[side]
  const id = refreshId(observedAt)
  return (entry, index) => {
    const fault = entryFault(entry, priceMax)
    if (fault) return encodeRejected(codec, { provider, observedAt }, entry, index, fault, rejected)
    return codec.encode(event, {
      ...judgedEntry(entry),
      provider,
      refresh_id: id,
      index,
      currency,
      usd_rate: null,
      observed_at: observedAt,
    })
  }
}

function saleEncoder(
  codec: Codec,
  provider: string,
  { observedAt, currency }: Refresh,
  { sales, ...rate }: { usdRate: string; priceMax: number; sales: SaleList },
  rejected: Map<EntryFault, number>,
): Encode {
  const seen: SeenSales = new Map()
  return (entry, index) => {
    const judged = judgeSale(entry as RawSale, { provider, currency, observedAt, ...rate }, seen)
    if ('sale' in judged) return sales.add(judged.sale) ? codec.encode(saleObserved, judged.sale) : undefined
    return encodeRejected(codec, { provider, observedAt }, entry, index, judged.fault, rejected)
  }
}

function encodeRejected(
  codec: Codec,
  refresh: { provider: string; observedAt: number },
  entry: RawEntry,
  index: number,
  reason: EntryFault,
  rejected: Map<EntryFault, number>,
): Buffer {
  rejected.set(reason, (rejected.get(reason) ?? 0) + 1)
  return codec.encode(observationRejected, {
    provider: refresh.provider,
    refresh_id: refreshId(refresh.observedAt),
    index,
    market_hash_name: nameOf(entry),
    raw: rawText(entry),
    reason,
    observed_at: refresh.observedAt,
  })
}
