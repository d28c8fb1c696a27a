/**
 * Live quotes for valuations.
 *
 * Reads the live view in slices. Invariant: rows of one item are of one moment; a view that is not there is a 503, never
 * an item without quotes.
 */
import type { Quote } from '#services/portfolios/values/reader.ts'
import type { LiveView } from './live-view.ts'

/** The asks and bids of items. */
export interface Quotes {
  asks: Quote[]
  bids: Quote[]
}

/** A whole portfolio has up to 10,000 items with up to 41 rows each. */
const SLICE = 500

/** Reads the quotes of items by some providers (all by default); per item in the order of the providers' keys. */
export async function readQuotes(
  live: LiveView,
  itemIds: readonly number[],
  providers: ReadonlySet<string> | undefined,
): Promise<Quotes> {
  const quotes: Quotes = { asks: [], bids: [] }
  for (let at = 0; at < itemIds.length; at += SLICE) {
    const slice = itemIds.slice(at, at + SLICE)
    const [asks, bids] = await Promise.all([live.ofItems('ask', slice), live.ofItems('bid', slice)])
    for (const [entries, into] of [
      [asks, quotes.asks],
      [bids, quotes.bids],
    ] as const) {
      for (const { itemId, listed } of entries) {
        if (providers && !providers.has(listed.provider)) continue
        const { price, currency, priceMicroUsd, quantity } = listed.row
        into.push({ itemId, provider: listed.provider, price, currency, priceMicroUsd, quantity })
      }
    }
  }
  return quotes
}
