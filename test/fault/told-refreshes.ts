/**
 * The refreshes that a log of observations holds, for those who did not write it themselves.
 *
 * Reads market.quotes and market.bids whole. Invariant: what is read is the log's own word, record by record: a
 * refresh that was begun and never completed stands here as cut, one with other records than it counts as lossy.
 */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { decodeLearning } from '#infra/kafka/learning.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import type { Observation, ObservationRejected, RefreshCompleted, RefreshFailed } from '#schemas/events/observation.ts'
import { topics } from '#schemas/topics.ts'
import type { ScriptedEntry, ScriptedRefresh } from './scripted-market.ts'

/** Finds the item of a name without a phase. */
export type FindItem = (name: string) => number | undefined

const SIDES = { quotes: 'ask', bids: 'bid' } as const

/** Reads all refreshes; those of each feed stand in the order of the log. */
export async function readRefreshesOfLog(kafka: KafkaConnection, findItem: FindItem): Promise<ScriptedRefresh[]> {
  const refreshes: ScriptedRefresh[] = []
  const reader = await openRangeReader(kafka, [kafka.topicName('quotes'), kafka.topicName('bids')])
  try {
    for (const key of ['quotes', 'bids'] as const) {
      const topic = kafka.topicName(key)
      for (let partition = 0; partition < topics[key].partitions; partition++) {
        const telling = openTelling(SIDES[key], findItem, refreshes)
        const to = await reader.stableEnd(topic, partition)
        await reader.read({ topic, partition, from: 0, to }, async ({ value }) => {
          const { event, value: told } = await decodeLearning(kafka.codec, value ?? Buffer.alloc(0))
          telling.take(event, told)
        })
        telling.end()
      }
    }
  } finally {
    await reader.close()
  }
  return refreshes
}

type Told = Observation & ObservationRejected & RefreshCompleted & RefreshFailed

/** Puts one partition's records together to refreshes. */
function openTelling(side: ScriptedRefresh['side'], findItem: FindItem, refreshes: ScriptedRefresh[]) {
  const open = new Map<string, ScriptedRefresh>()
  const begin = ({ provider, refresh_id, observed_at }: Told): ScriptedRefresh => {
    const common = { side, provider, refreshId: refresh_id ?? '', observedAt: observed_at }
    return { ...common, currency: 'USD', usdRate: '1', entries: [], ending: 'cut' }
  }
  /**
   * The refresh under way that a record belongs to; one that was never completed ends where another begins. None for what follows of
   * one that has been replaced: that changes nothing.
   */
  const openOf = (told: Told, isFirst: boolean): ScriptedRefresh | undefined => {
    const known = open.get(told.provider)
    if (known !== undefined && !isFirst) return known.refreshId === told.refresh_id ? known : undefined
    const begun = begin(told)
    leave(told.provider)
    open.set(told.provider, begun)
    return begun
  }
  const leave = (provider: string): void => {
    const left = open.get(provider)
    open.delete(provider)
    if (left !== undefined) refreshes.push(left)
  }
  return {
    take(event: string, told: Told): void {
      if (event === 'RefreshFailed') {
        leave(told.provider)
        refreshes.push({ ...begin(told), ending: 'failed', failure: told.reason })
      } else if (event === 'RefreshCompleted') {
        const whole = openOf(told, told.count === 0)
        if (whole === undefined) return
        const { currency, usd_rate: usdRate } = told
        const ending = whole.entries.length === told.count ? 'completed' : 'lossy'
        Object.assign(whole, { currency, usdRate, ending })
        leave(told.provider)
      } else {
        const refresh = openOf(told, told.index === 0)
        if (refresh === undefined) return
        if (refresh.entries.length !== told.index) refresh.ending = 'lossy'
        refresh.entries.push(entryOf(event, told, findItem))
        refresh.currency = told.currency ?? refresh.currency
      }
    },
    end(): void {
      for (const provider of [...open.keys()]) leave(provider)
    },
  }
}

function entryOf(event: string, told: Told, findItem: FindItem): ScriptedEntry {
  const name = told.market_hash_name ?? ''
  if (event === 'ObservationRejected') {
    return { name, itemId: findItem(name), price: 0, quantity: 0, currency: '', isRejected: true }
  }
  const { price, quantity, currency } = told
  return { name, itemId: findItem(name), price: price ?? 0, quantity, currency, isRejected: false }
}
