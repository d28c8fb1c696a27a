/** A refresh that was begun and never completed is `cut`; one with other records than it counts is `lossy`. */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Observation, ObservationRejected, RefreshCompleted, RefreshFailed } from '#schemas/events/observation.ts'
import type { PublishedEntry, PublishedRefresh } from '#test/harness/published-records.ts'
import { readTopic } from '#test/harness/read-topic.ts'

type FindItem = (name: string) => number | undefined

/** Reads all refreshes; those of each feed are in the order of the log. */
export async function readRefreshesOfLog(kafka: KafkaConnection, findItem: FindItem): Promise<PublishedRefresh[]> {
  const refreshes: PublishedRefresh[] = []
  for (const [topic, side] of [
    ['quotes', 'ask'],
    ['bids', 'bid'],
  ] as const) {
    const assembly = openAssembly(side, findItem, refreshes)
    for (const { event = '', value } of await readTopic(kafka, topic)) assembly.add(event, value)
    assembly.end()
  }
  return refreshes
}

type ObservationValue = Observation & ObservationRejected & RefreshCompleted & RefreshFailed

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
    add(event: string, value: ObservationValue): void {
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
