/**
 * A price that changes several times a second, and how long each of its values takes to be answered and to be told.
 *
 * One provider with one item, published by the test itself as refreshes of the log. Invariant: the next value is
 * published only when REST and feed have shown the one before, or after {@link PATIENCE_MS}, so a path that stands still
 * shows as that time at least.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Codec } from '#infra/kafka/codec.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import { eventually } from '#test/harness/eventually.ts'
import { openSse, type SseClient } from '#test/harness/sse-client.ts'
import { recordsOf } from './market-records.ts'
import type { ScriptedRefresh } from './scripted-market.ts'

/** Where and as what the canary sings. */
export interface CanaryOptions {
  publisher: Publisher
  codec: Codec
  baseUrl: string
  key: string
  provider: string
  item: { name: string; itemId: number }
  /** When its first refresh was observed. */
  from: number
}

/** The longest times from the log's acknowledgement until a value was there, in milliseconds. */
export interface Freshness {
  values: number
  restMs: number
  feedMs: number
}

/** A canary that sings until it is stopped. */
export interface Canary {
  /** What it has published, for the reference. */
  readonly refreshes: readonly ScriptedRefresh[]
  /** What was measured since the last call. */
  taken(): Freshness
  stop(): Promise<void>
}

const EVERY_MS = 150
const PATIENCE_MS = 10_000
const FIRST_PRICE = 1_000
const MINUTE_MS = 60_000

/** Opens a canary; resolves when its stream is open. */
export async function openCanary(options: CanaryOptions): Promise<Canary> {
  const { publisher, codec, baseUrl, key, provider, item, from } = options
  const refreshes: ScriptedRefresh[] = []
  const ending = new AbortController()
  const stream = await openSse(`${baseUrl}/feed/prices?providers=${provider}`, { key })
  if (stream.status !== 200) throw new Error(`the feed answered ${stream.status}`)
  let freshness: Freshness = { values: 0, restMs: 0, feedMs: 0 }

  const answered = async (price: number): Promise<boolean> => {
    const url = `${baseUrl}/v1/prices?item_id=${item.itemId}&providers=${provider}&currency=USD`
    const answer = await fetch(url, { headers: { authorization: `Bearer ${key}` }, signal: AbortSignal.timeout(5_000) })
    const { items } = (await answer.json()) as { items?: { lowest_ask: number }[] }
    return items?.[0]?.lowest_ask === price
  }
  const told = (price: number): boolean => pricesOf(stream).includes(price)
  /** How long it takes until something holds; what never does counts as patience. */
  const timeUntil = async (holds: () => boolean | Promise<boolean>): Promise<number> => {
    const startedAt = performance.now()
    await eventually(holds, PATIENCE_MS).catch(() => undefined)
    return performance.now() - startedAt
  }
  const sing = async (): Promise<void> => {
    for (let value = 0; !ending.signal.aborted; value++) {
      const price = FIRST_PRICE + value
      const refresh = refreshOf(options, price, from + value * MINUTE_MS)
      refreshes.push(refresh)
      await publisher.send(recordsOf(refresh, codec))
      const [restMs, feedMs] = await Promise.all([timeUntil(() => answered(price)), timeUntil(() => told(price))])
      freshness = {
        values: freshness.values + 1,
        restMs: Math.max(freshness.restMs, restMs),
        feedMs: Math.max(freshness.feedMs, feedMs),
      }
      await pause(EVERY_MS, undefined, { signal: ending.signal }).catch(() => undefined)
    }
  }
  const singing = sing()
  singing.catch(() => undefined)
  return {
    refreshes,
    taken() {
      const taken = freshness
      freshness = { values: 0, restMs: 0, feedMs: 0 }
      return taken
    },
    async stop() {
      ending.abort()
      await singing
      stream.close()
    },
  }
}

/** `12 values, 0.1 s to REST, 0.2 s to the feed at most` */
export const describeFreshness = ({ values, restMs, feedMs }: Freshness): string =>
  `${values} values, ${(restMs / 1000).toFixed(1)} s to REST and ${(feedMs / 1000).toFixed(1)} s to the feed at most`

function refreshOf({ provider, item }: CanaryOptions, price: number, observedAt: number): ScriptedRefresh {
  return {
    ...{ side: 'ask', provider, observedAt, currency: 'USD', usdRate: '1', ending: 'completed' },
    refreshId: new Date(observedAt).toISOString().replace(/[-:.]/g, ''),
    entries: [{ ...item, price, quantity: 1, currency: 'USD', isRejected: false }],
  }
}

/** The last prices that a stream has told. */
const pricesOf = ({ events }: SseClient): number[] =>
  events
    .slice(-3)
    .flatMap(({ event, data }) =>
      event === 'prices.changed' ? (data as { items: { price: number }[] }).items.map(({ price }) => price) : [],
    )
