/**
 * Writes the pairs of GET /market/arbitrage as JSON, a character per byte of its UTF-8.
 *
 * Pure but for a cache of each item's text. The texts are those of the zod schema (schemas/api/arbitrage.ts), which
 * test/integration/market-analytics.test.ts checks. As objects for JSON.stringify a page of 1,000 took twice as long.
 */
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { toUsdText } from '#schemas/values/money.ts'
import { type ArbitrageFees, type ArbitrageView, arbitrageAmounts } from '#streams/market-summary/reader.ts'
import { type ByteText, utf8AsLatin1 } from './byte-text.ts'

/** The members that name an item, without braces; undefined for an id that the catalog does not know. */
export type ItemText = (itemId: number) => string | undefined

/** What texts of pairs are made of beside the snapshot. */
export interface PairSources {
  fees: ReadonlyMap<string, ArbitrageFees>
  itemText: ItemText
}

/** Opens the texts of items; each is made once for as long as the catalog has the item so. */
export function openItemText(catalog: { byId(itemId: number): CatalogItem | undefined }): ItemText {
  const texts = new WeakMap<CatalogItem, string>()
  return itemId => {
    const item = catalog.byId(itemId)
    if (!item) return undefined
    const { item_id, market_hash_name, phase } = item
    const text = texts.get(item) ?? utf8AsLatin1(JSON.stringify({ item_id, market_hash_name, phase }).slice(1, -1))
    texts.set(item, text)
    return text
  }
}

/** Adds the pairs of some rows, with commas between; those of unknown items are left out. */
export function addPairs(to: ByteText, view: ArbitrageView, rows: readonly number[], sources: PairSources): void {
  const pairText = openPairText(view, sources.fees)
  let isFirst = true
  for (const row of rows) {
    const item = sources.itemText(view.columns.itemId[row] as number)
    if (item === undefined) continue
    to.add(`${isFirst ? '' : ','}{${item},${pairText(row)}}`)
    isFirst = false
  }
}

/** Texts that the rows of a page share are made once: most legs were last updated by the same few refreshes. */
function openPairText({ head, columns }: ArbitrageView, fees: ReadonlyMap<string, ArbitrageFees>) {
  const names = head.providers.map(key => JSON.stringify(key))
  const feesOf = head.providers.map(key => fees.get(key) ?? { buy: 0, sell: 0 })
  const times = new Map<number, string>()
  const timeOf = (at: number): string => {
    const known = times.get(at) ?? formatInstant(at)
    times.set(at, known)
    return known
  }
  return (row: number): string => {
    const [buy, sell] = [columns.buyMicroUsd[row] as number, columns.sellMicroUsd[row] as number]
    const [buyer, seller] = [columns.buyProvider[row] as number, columns.sellProvider[row] as number]
    const { estimatedFeesCents, netProfitCents, grossSpreadPct } = arbitrageAmounts(buy, sell, {
      buy: feesOf[buyer]?.buy ?? 0,
      sell: feesOf[seller]?.sell ?? 0,
    })
    const buyUpdated = head.as_of - (columns.buyAgeMs[row] as number)
    const sellUpdated = head.as_of - (columns.sellAgeMs[row] as number)
    return (
      `"buy_provider":${names[buyer]},"sell_provider":${names[seller]},` +
      `"buy_price_usd":"${toUsdText(buy)}","sell_price_usd":"${toUsdText(sell)}",` +
      `"estimated_fees_usd":"${dollars(estimatedFeesCents)}","net_profit_usd":"${dollars(netProfitCents)}",` +
      `"gross_spread_pct":${grossSpreadPct},"quantity":${columns.quantity[row]},` +
      `"last_updated":"${timeOf(Math.max(buyUpdated, sellUpdated))}",` +
      `"buy_last_updated":"${timeOf(buyUpdated)}","sell_last_updated":"${timeOf(sellUpdated)}"`
    )
  }
}

const dollars = (cents: number): string => `${Math.floor(cents / 100)}.${cents % 100 < 10 ? '0' : ''}${cents % 100}`
