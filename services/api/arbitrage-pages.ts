/**
 * Pages of the arbitrage snapshot as bytes, made of texts and cached.
 *
 * A snapshot is current for ten seconds and its page depends on the query alone, until a row of it passes the age limit: then it is
 * made again. Invariant: the cache belongs to one snapshot, the last one that was asked for, and is bounded; the oldest pages are
 * evicted first. The texts are those of the zod schema (schemas/api/arbitrage.ts); as objects for JSON.stringify a page of 1,000 took
 * twice as long.
 */
import type { ArbitrageQuery } from '#schemas/api/arbitrage.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { formatInstant, type Instant } from '#schemas/values/instant.ts'
import { toUsdText } from '#schemas/values/money.ts'
import { type ArbitrageFees, type ArbitrageView, arbitrageAmounts, freshUntil } from '#streams/market-summary/reader.ts'
import { arbitragePage } from './queries/arbitrage.ts'

/** The rows of a page. */
interface PageBytes {
  /** Their JSON texts, with commas between. */
  items: Buffer
  hasNext: boolean
}

interface KeptPage extends PageBytes {
  /** The last moment at which making the page again gives the same. */
  until: Instant
}

const KEPT_BYTES = 32 * 2 ** 20
/** What a page costs beside its bytes and its query. */
const ENTRY_BYTES = 500

/** Opens the cache; returns the page of a query at a time. */
export function openArbitragePages(sources: PairSources, keptBytes = KEPT_BYTES) {
  let current: ArbitrageView | undefined
  const kept = new Map<string, KeptPage>()
  let bytes = 0
  const sizeOf = (question: string, { items }: KeptPage): number => items.length + 2 * question.length + ENTRY_BYTES
  const forget = (question: string, page: KeptPage): void => {
    if (kept.delete(question)) bytes -= sizeOf(question, page)
  }
  const keep = (question: string, page: KeptPage): void => {
    kept.set(question, page)
    bytes += sizeOf(question, page)
    for (const [other, old] of kept) {
      if (bytes <= keptBytes) return
      forget(other, old)
    }
  }
  return (view: ArbitrageView, query: ArbitrageQuery, now: Instant): PageBytes => {
    if (view !== current) {
      current = view
      kept.clear()
      bytes = 0
    }
    const question = JSON.stringify(query)
    const known = kept.get(question)
    if (known && now <= known.until) return known
    if (known) forget(question, known)
    const page = makePage(view, query, now, sources)
    keep(question, page)
    return page
  }
}

function makePage(view: ArbitrageView, query: ArbitrageQuery, now: Instant, sources: PairSources): KeptPage {
  const { rows, hasNext } = arbitragePage(view, query, now)
  const text = new ByteText()
  addPairs(text, view, rows, sources)
  let until = Number.POSITIVE_INFINITY
  for (const row of rows) until = Math.min(until, freshUntil(view.columns, row, view.asOf))
  return { items: text.bytes(), hasNext, until }
}

/** The members that name an item, without braces; undefined for an id that the catalog does not know. */
type ItemText = (itemId: number) => string | undefined

/** What texts of pairs are made of beside the snapshot. */
interface PairSources {
  fees: ReadonlyMap<string, ArbitrageFees>
  itemText: ItemText
}

/** Opens the texts of items; each is made once for as long as the catalog has the item so. */
export function openPairItemText(catalog: { byId(itemId: number): CatalogItem | undefined }): ItemText {
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
function addPairs(to: ByteText, view: ArbitrageView, rows: readonly number[], sources: PairSources): void {
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
function openPairText({ providers, columns, asOf }: ArbitrageView, fees: ReadonlyMap<string, ArbitrageFees>) {
  const names = providers.map(key => JSON.stringify(key))
  const feesOf = providers.map(key => fees.get(key) ?? { buy: 0, sell: 0 })
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
    const buyUpdated = asOf - (columns.buyAgeMs[row] as number)
    const sellUpdated = asOf - (columns.sellAgeMs[row] as number)
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

const PIECE_CHARACTERS = 16_384

/**
 * Makes bytes of a long text as it grows. A text of thousands of pieces is a rope until it is read, and each collection of young objects
 * copies the rope; and one character beyond ASCII makes two bytes of every other. So pieces become bytes every few kilobytes: of 600 kB
 * in 15,000 pieces the slowest of a hundred took 2 to 3 ms instead of 8 to 9.
 */
class ByteText {
  readonly #pieces: Buffer[] = []
  #text = ''

  /** Adds a text whose every character is a byte of its UTF-8: ASCII, or what {@link utf8AsLatin1} gives. */
  add(text: string): void {
    this.#text += text
    if (this.#text.length >= PIECE_CHARACTERS) this.#cut()
  }

  /** All that was added. */
  bytes(): Buffer {
    this.#cut()
    return Buffer.concat(this.#pieces)
  }

  #cut(): void {
    this.#pieces.push(Buffer.from(this.#text, 'latin1'))
    this.#text = ''
  }
}

/** The UTF-8 of a text, a character per byte. */
const utf8AsLatin1 = (text: string): string => Buffer.from(text).toString('latin1')
