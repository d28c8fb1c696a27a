/**
 * The exchange rates in force, followed by every process from market.fx.
 *
 * Reads the topic without a group, writes nothing. Invariant: the table with the latest `as_of` is in force, of two
 * equal ones the later in the log; a table from the future or with an invalid rate is skipped whole, and the US
 * dollar's own rate is there also before the first table. A table that was replaced while no process ran was never in force.
 */
import { eventOf } from '#infra/kafka/codec.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { follow } from '#infra/kafka/follower.ts'
import type { TopicIds } from '#infra/runtime/role.ts'
import type { FxRatesPublished } from '#schemas/events/fx-rates-published.ts'
import { isFromTheFuture } from '#schemas/values/event-time.ts'
import { parseRate, USD_RATE } from '#schemas/values/money.ts'
import type { Rates } from './step.ts'

export interface RatesInForce {
  asOf: number
  rates: Rates
}

export const NO_RATES: RatesInForce = { asOf: 0, rates: new Map([['USD', USD_RATE]]) }

export type RateFeed = Awaited<ReturnType<typeof openRateFeed>>

export async function openRateFeed(kafka: KafkaConnection, ids: TopicIds, fail: (error: Error) => void) {
  let current = NO_RATES
  const listeners = new Set<(table: RatesInForce) => void>()
  const stop = new AbortController()
  const following = await follow(kafka, 'fx', {
    from: 'start',
    signal: stop.signal,
    ids,
    onRecords(records) {
      const before = current
      for (const record of records) current = ratesAfter(current, eventOf(kafka.codec, record.value), record.timestamp)
      if (current !== before) for (const listener of listeners) listener(current)
    },
  })
  following.closed.catch(error => {
    if (!stop.signal.aborted) fail(error)
  })
  await following.caughtUp
  return {
    current: () => current,
    /** Calls the listener with every new table until the result is called. */
    onChange(listener: (table: RatesInForce) => void) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    async close(): Promise<void> {
      stop.abort()
      await following.closed.catch(() => undefined)
    },
  }
}

/** The table in force after a record of market.fx. The role `fx` puts what is no usable table to the dead letters; here it changes nothing. */
export function ratesAfter(
  before: RatesInForce,
  decoded: ReturnType<typeof eventOf>,
  appendedAt: number,
): RatesInForce {
  if (decoded?.event !== 'FxRatesPublished') return before
  const { as_of: asOf, rates }: FxRatesPublished = decoded.value
  const parsed = Object.entries(rates).map(([code, text]) => [code, parseRate(text)] as const)
  const usable = parsed.flatMap(([code, rate]) => (rate ? [[code, rate] as const] : []))
  if (usable.length < parsed.length || rates.USD !== '1') return before
  return isFromTheFuture(asOf, appendedAt) || asOf < before.asOf ? before : { asOf, rates: new Map(usable) }
}
