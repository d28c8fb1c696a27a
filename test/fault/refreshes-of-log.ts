/**
 * The refreshes that a log of observations holds, for those who did not write it themselves.
 *
 * Reads market.quotes and market.bids whole, record by record. A refresh that was begun and never completed is `cut`; one with
 * other records than it counts is `lossy`.
 */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import type { Observation, ObservationRejected, RefreshCompleted, RefreshFailed } from '#schemas/events/observation.ts'
import { topics } from '#schemas/topics.ts'
import type { PublishedEntry, PublishedRefresh } from '#test/harness/published-records.ts'

/** Finds the item of a name without a phase. */
type FindItem = (name: string) => number | undefined

const SIDES = { quotes: 'ask', bids: 'bid' } as const

/** Reads all refreshes; those of each feed are in the order of the log. */
export async function readRefreshesOfLog(kafka: KafkaConnection, findItem: FindItem): Promise<PublishedRefresh[]> {
  const refreshes: PublishedRefresh[] = []
  const reader = await openRangeReader(kafka, [kafka.topicName('quotes'), kafka.topicName('bids')])
  try {
    for (const key of ['quotes', 'bids'] as const) {
      const topic = kafka.topicName(key)
      for (let partition = 0; partition < topics[key].partitions; partition++) {
        const assembly = openAssembly(SIDES[key], findItem, refreshes)
        const to = await reader.stableEnd(topic, partition)
        for await (const page of reader.range(topic, new Map([[partition, { from: 0, to }]]))) {
          for (const record of page) {
            const { event, value } = kafka.codec.decode(record.value ?? Buffer.alloc(0))
            assembly.take(event, value)
          }
        }
        assembly.end()
      }
    }
  } finally {
    await reader.close()
  }
  return refreshes
}

type ObservationValue = Observation & ObservationRejected & RefreshCompleted & RefreshFailed

/** Puts one partition's records together to refreshes. */
function openAssembly(side: PublishedRefresh['side'], findItem: FindItem, refreshes: PublishedRefresh[]) {
  const open = new Map<string, PublishedRefresh>()
  const begin = ({ provider, refresh_id, observed_at }: ObservationValue): PublishedRefresh => {
    const common = { side, provider, refreshId: refresh_id ?? '', observedAt: observed_at }
    return { ...common, currency: 'USD', usdRate: '1', entries: [], ending: 'cut' }
  }
  /**
   * The refresh under way that a record belongs to; one that was never completed ends where another begins. None for what follows of
   * one that has been replaced: that changes nothing.
   */
  const openOf = (value: ObservationValue, isFirst: boolean): PublishedRefresh | undefined => {
    const known = open.get(value.provider)
    if (known !== undefined && !isFirst) return known.refreshId === value.refresh_id ? known : undefined
    const begun = begin(value)
    leave(value.provider)
    open.set(value.provider, begun)
    return begun
  }
  const leave = (provider: string): void => {
    const left = open.get(provider)
    open.delete(provider)
    if (left !== undefined) refreshes.push(left)
  }
  return {
    take(event: string, value: ObservationValue): void {
      if (event === 'RefreshFailed') {
        leave(value.provider)
        refreshes.push({ ...begin(value), ending: 'failed', failure: value.reason })
      } else if (event === 'RefreshCompleted') {
        const whole = openOf(value, value.count === 0)
        if (whole === undefined) return
        const { currency, usd_rate: usdRate } = value
        const ending = whole.entries.length === value.count ? 'completed' : 'lossy'
        Object.assign(whole, { currency, usdRate, ending })
        leave(value.provider)
      } else {
        const refresh = openOf(value, value.index === 0)
        if (refresh === undefined) return
        if (refresh.entries.length !== value.index) refresh.ending = 'lossy'
        refresh.entries.push(entryOf(event, value, findItem))
        refresh.currency = value.currency ?? refresh.currency
      }
    },
    end(): void {
      for (const provider of [...open.keys()]) leave(provider)
    },
  }
}

function entryOf(event: string, value: ObservationValue, findItem: FindItem): PublishedEntry {
  const name = value.market_hash_name ?? ''
  if (event === 'ObservationRejected') {
    return { name, itemId: findItem(name), price: 0, quantity: 0, currency: '', isRejected: true }
  }
  const { price, quantity, currency } = value
  return { name, itemId: findItem(name), price: price ?? 0, quantity, currency, isRejected: false }
}
