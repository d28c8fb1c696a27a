/** Buy orders and years of daily closes. Invariant: bids lie around the cheapest asks, so that some hundred thousand pairs leave a profit, and most do not. */
import { loadProviders } from '#infra/config/providers.ts'
import { type Outgoing, openPublisher } from '#infra/kafka/publisher.ts'
import { dayClosed } from '#schemas/events/day-closed.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { openTestIngest } from '#test/fixtures/test-ingest.ts'
import type { Stage } from './stage.ts'

const PORTION = 5_000

/** Publishes bids of the providers that have some; returns their refreshes. */
export async function publishBids(stage: Stage, itemsEach: number): Promise<string[]> {
  const ingest = await openTestIngest(stage.kafka)
  const refreshes: string[] = []
  let count = 0
  const { bidKeys } = loadProviders()
  for (const listing of stage.market.listings.filter(({ provider }) => bidKeys.includes(provider))) {
    const { provider, currency, names, prices } = listing
    const observedAt = Date.now()
    const [usd, yuan] = [currency, 'CNY'].map(code => Number(ingest.rates.rateOf(code)?.text)) as [number, number]
    const entries = names.slice(0, itemsEach).map((market_hash_name, item) => ({
      market_hash_name,
      // The asks are the same number in every currency, so those in yuan are the cheapest: bids lie around them.
      price: Math.max(1, Math.floor(((prices[item] ?? 1) / yuan) * usd * (0.85 + ((item * 13 + count) % 31) / 100))),
      quantity: 1 + (item % 5),
    }))
    refreshes.push((await ingest.publish({ provider, side: 'bid', observedAt, currency, entries })).key)
    count += entries.length
  }
  await ingest.close()
  return refreshes
}

/** Publishes a close of every provider and day for some items. */
export async function publishYear(stage: Stage, itemIds: readonly number[], days: number): Promise<void> {
  const publisher = await openPublisher(stage.kafka, 'ingest')
  const { codec } = stage.kafka
  await codec.prepare([dayClosed])
  const names = stage.market.listings[0]?.names ?? []
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS
  let portion: Outgoing[] = []
  for (const itemId of itemIds) {
    const name = names[stage.market.itemIds.indexOf(itemId)] as string
    for (const [order, { provider }] of stage.market.listings.entries()) {
      for (let ago = days; ago > 0; ago--) {
        const priceOf = (day: number): number => 1_000 + ((day * 37 + order * 11 + itemId) % 400)
        const close = {
          provider,
          market_hash_name: name,
          phase: null,
          day: today - ago * DAY_MS,
          price: priceOf(ago),
          currency: 'USD',
          usd_rate: '1',
          listings: 5 + (ago % 7),
          previous_listings: 5 + ((ago + 1) % 7),
          previous_price: ago === days ? null : priceOf(ago + 1),
          is_last: false,
        }
        portion.push({ topic: 'dayCloses', key: name, value: codec.encode(dayClosed, close) })
        if (portion.length < PORTION) continue
        await publisher.send(portion)
        portion = []
      }
    }
  }
  if (portion.length > 0) await publisher.send(portion)
  await publisher.close()
}
