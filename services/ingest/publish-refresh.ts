/**
 * Publishes one refresh: its entries in bounded portions, then the record that completes it.
 *
 * Writes market.quotes, market.bids or market.sales, and market.feeds. Invariant: indexes run from 0 without gaps,
 * rejected entries included; RefreshCompleted is sent only after all that it counts; a refresh cut
 * short by the signal is never completed, so `book` drops it. A sale that the list before held is not published again.
 */
import PQueue from 'p-queue'
import type { Codec } from '#infra/kafka/codec.ts'
import type { Outgoing, Publisher } from '#infra/kafka/publisher.ts'
import type { FeedAdvanced, FeedSide } from '#schemas/events/feed-advanced.ts'
import {
  askObserved,
  bidObserved,
  observationRejected,
  refreshCompleted,
  refreshFailed,
} from '#schemas/events/observation.ts'
import { saleObserved } from '#schemas/events/sale-observed.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import type { Rate } from '#schemas/values/money.ts'
import { partitionOf } from '#schemas/values/partition.ts'
import { entryFault, judgedEntry, nameOf, priceMaxAt, rawText } from './entry.ts'
import type { RateTable } from './fx/rate-table.ts'
import type { Positions } from './positions.ts'
import { judgeSale, type SeenSales } from './sale.ts'
import { openSaleList, SALES_MAX, type SaleList } from './sale-list.ts'
import type { FailedRefresh, RawEntry, RawSale, Refresh, Source } from './source.ts'

export type Published =
  | { result: 'completed'; observed: number; rejected: ReadonlyMap<string, number> }
  | { result: 'failed'; reason: string; detail: string }
  | { result: 'cut' }

export const TOPICS: Record<FeedSide, TopicKey> = { ask: 'quotes', bid: 'bids', sale: 'sales' }

/** Records of one send. All sales of a list are one with its position: a kill in between would repeat them. */
const PORTIONS: Record<FeedSide, number> = { ask: 2_000, bid: 2_000, sale: SALES_MAX + 1 }

export interface RefreshPublisher extends Pick<Publisher, 'send'> {
  codec: Codec
  /** Makes and sends portions; shared by the sources of a process. */
  portions: PQueue
}

/** More than three at once only take memory and the event loop's time: 60 sources that were due together blocked everything for 0.7 s. */
export const openPortions = (): PQueue => new PQueue({ concurrency: 3 })

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
  const rejected = new Map<string, number>()
  const sales = positions?.nextSaleList(source) ?? openSaleList(null, () => undefined)
  const encode = entryEncoder(codec, source, refresh, { rate, sales, rejected })
  const position = (): FeedAdvanced => ({ side, provider, observed_at: observedAt, sale_hashes: sales.hashes() })
  const count = await publishEntries(publisher, source, Iterator.from(refresh.entries).map(encode), cut, total => {
    const about = { provider, refresh_id: refreshId(observedAt), observed_at: observedAt }
    const completed = { ...about, count: total, currency, usd_rate: rate.text }
    const completion = { topic: TOPICS[side], key: provider, value: codec.encode(refreshCompleted, completed) }
    return [...(side === 'sale' ? [] : [completion]), ...(positions?.recordsOf(position()) ?? [])]
  })
  if (count === undefined) return { result: 'cut' }
  positions?.advance(position())
  const rejectedCount = [...rejected.values()].reduce((sum, one) => sum + one, 0)
  return { result: 'completed', observed: count - rejectedCount, rejected }
}

async function publishFailure(
  { codec, send }: RefreshPublisher,
  { provider, side }: Source,
  { observedAt, reason, detail }: Omit<FailedRefresh, 'kind'>,
): Promise<Published> {
  const event = { provider, observed_at: observedAt, reason, detail: detail.slice(0, 500).toWellFormed() }
  await send([{ topic: TOPICS[side], key: provider, value: codec.encode(refreshFailed, event) }])
  return { result: 'failed', reason, detail }
}

/** The partition of a source's records, which decides its owner: a partition's owner runs all sources in it. */
export const partitionOfSource = ({ provider, side }: Source): number =>
  partitionOf(provider, topics[TOPICS[side]].partitions)

/** Names a refresh by its time: `20260303T213430549Z`. */
export const refreshId = (observedAt: number): string => new Date(observedAt).toISOString().replace(/[-:.]/g, '')

/** The number of records, those of the ending left out; undefined when it was cut. */
async function publishEntries(
  { send, portions }: RefreshPublisher,
  source: Source,
  values: Iterator<Buffer | undefined, unknown>,
  cut: AbortSignal,
  ending: (count: number) => readonly Outgoing[],
): Promise<number | undefined> {
  const about = { topic: TOPICS[source.side], key: source.provider, partition: partitionOfSource(source) }
  let count = 0
  let isWhole = false
  const sendPortion = async (): Promise<boolean> => {
    const portion: Outgoing[] = []
    while (portion.length < PORTIONS[source.side] && !isWhole) {
      const { done, value } = values.next()
      if (done) isWhole = true
      else if (value) portion.push({ ...about, value })
    }
    if (cut.aborted) return false
    count += portion.length
    if (isWhole) portion.push(...ending(count))
    if (portion.length > 0) await send(portion)
    return true
  }
  while (!isWhole) if (!(await portions.add(sendPortion))) return undefined
  return count
}

/** Encodes the entries of a refresh; undefined for what need not be published. */
function entryEncoder(
  codec: Codec,
  { provider, side }: Source,
  { observedAt, currency }: Refresh,
  { rate, sales, rejected }: { rate: Rate; sales: SaleList; rejected: Map<string, number> },
): (entry: RawEntry, index: number) => Buffer | undefined {
  const priceMax = priceMaxAt(rate)
  const about = { provider, refresh_id: refreshId(observedAt), observed_at: observedAt }
  const seen: SeenSales = new Map()
  const encodeRejected = (entry: RawEntry, index: number, reason: string): Buffer => {
    rejected.set(reason, (rejected.get(reason) ?? 0) + 1)
    const raw = { market_hash_name: nameOf(entry), raw: rawText(entry) }
    return codec.encode(observationRejected, { ...about, index, ...raw, reason })
  }
  return (entry, index) => {
    if (side === 'sale') {
      const context = { provider, currency, usdRate: rate.text, observedAt, priceMax }
      const judged = judgeSale(entry as RawSale, context, seen)
      if ('fault' in judged) return encodeRejected(entry, index, judged.fault)
      return sales.add(judged.sale) ? codec.encode(saleObserved, judged.sale) : undefined
    }
    const fault = entryFault(entry, priceMax)
    if (fault) return encodeRejected(entry, index, fault)
    const event = side === 'ask' ? askObserved : bidObserved
    return codec.encode(event, { ...judgedEntry(entry), ...about, index, currency, usd_rate: null })
  }
}
