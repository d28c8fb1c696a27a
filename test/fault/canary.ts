/**
 * A price that changes several times a second, and how long each of its values takes to be answered and to be delivered.
 *
 * One provider with one item, published by the test itself as refreshes of the log. Invariant: the next value is
 * published only when the paths that are watched have shown the one before; a value that is still awaited counts with its
 * age so far, and one that is not there after {@link COMES_WITHIN_MS} is an error of whatever is asked of the canary next.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Codec } from '#infra/kafka/codec.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import { eventually } from '#test/harness/eventually.ts'
import { type PublishedRefresh, refreshOf, refreshRecords } from '#test/harness/published-records.ts'
import { openSse, type SseClient } from '#test/harness/sse-client.ts'
import { type Freshness, type FreshPath, openFreshnessMeter } from './freshness-meter.ts'

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

/** A canary that sings until it is stopped. */
export interface Canary {
  /** What it has published, for the reference. */
  readonly refreshes: readonly PublishedRefresh[]
  /** Which paths show values from now on; others are not waited for. */
  watch(paths: readonly FreshPath[]): void
  /** What was measured since the last call; throws when that are fewer values than promised, or one never came. */
  taken(least: number): Freshness
  /** Forgets what was measured so far. */
  discard(): void
  /** Rejects when a value never came. */
  stop(): Promise<void>
}

/** Pause between a value's arrival and the next value. */
export const EVERY_MS = 150
const FIRST_PRICE = 1_000
const MINUTE_MS = 60_000

/** Opens a canary; resolves when its stream is open. */
export async function openCanary(options: CanaryOptions): Promise<Canary> {
  const { publisher, codec, baseUrl, key, provider, item, from } = options
  const refreshes: PublishedRefresh[] = []
  const ending = new AbortController()
  const stream = await openSse(`${baseUrl}/feed/prices?providers=${provider}`, { key })
  if (stream.status !== 200) throw new Error(`the feed answered ${stream.status}`)
  const meter = openFreshnessMeter(() => performance.now())

  const answered = async (price: number): Promise<boolean> => {
    const url = `${baseUrl}/v1/prices?item_id=${item.itemId}&providers=${provider}&currency=USD`
    const answer = await fetch(url, { headers: { authorization: `Bearer ${key}` }, signal: AbortSignal.timeout(5_000) })
    const { items } = (await answer.json()) as { items?: { lowest_ask: number }[] }
    return items?.[0]?.lowest_ask === price
  }
  const delivered = (price: number): boolean => pricesOf(stream).includes(price)
  const untilSeen = async (path: FreshPath, price: number, holds: () => boolean | Promise<boolean>): Promise<void> => {
    const isOver = async (): Promise<boolean> => !meter.isAwaited(path) || (await holds())
    await eventually(isOver, `the price ${price} (${path})`)
    meter.seen(path)
  }
  const run = async (): Promise<void> => {
    for (let value = 0; !ending.signal.aborted; value++) {
      const price = FIRST_PRICE + value
      const refresh = refreshAt(options, price, from + value * MINUTE_MS)
      refreshes.push(refresh)
      meter.published()
      await publisher.send(refreshRecords(codec, refresh))
      meter.acknowledged()
      await Promise.all([
        untilSeen('restMs', price, () => answered(price)),
        untilSeen('feedMs', price, () => delivered(price)),
      ])
      await pause(EVERY_MS, undefined, { signal: ending.signal }).catch(() => undefined)
    }
  }
  const running = run()
  running.catch(meter.fail)
  return {
    refreshes,
    watch: meter.watch,
    taken: meter.taken,
    discard: meter.discard,
    async stop() {
      ending.abort()
      await running
      stream.close()
    },
  }
}

const refreshAt = ({ provider, item }: CanaryOptions, price: number, observedAt: number): PublishedRefresh =>
  refreshOf({ provider, observedAt, entries: [{ ...item, price, quantity: 1 }] })

/** The last prices that a stream has delivered. */
const pricesOf = ({ events }: SseClient): number[] =>
  events
    .slice(-3)
    .flatMap(({ event, data }) =>
      event === 'prices.changed' ? (data as { items: { price: number }[] }).items.map(({ price }) => price) : [],
    )
