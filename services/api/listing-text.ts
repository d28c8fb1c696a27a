/**
 * Writes the entries of GET /prices and GET /bids, and the quotes of batch lookups, as JSON text.
 *
 * Pure but for its memory: constant parts (an item's members, a provider's link) are escaped once, and the
 * members of a row that depend on the row alone are kept on it (ListedRow.serialised), so that an unchanged
 * row costs one concatenation. Invariant: the text is ASCII and equals what JSON.stringify would make of the
 * entry, escapes aside; test/contract holds both against the zod schema.
 *
 * JSON.stringify of 41 objects took 30 us, of which this leaves 4 (unchanged rows) to 20 (new ones).
 */
import { marketplaceUrl, type Provider } from '#infra/config/providers.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { minorDigits, minorToDecimal, type Rate, toDecimal } from '#schemas/values/money.ts'
import type { LiveRow } from '#schemas/views/live-keys.ts'
import type { LiveEntry } from './queries/live-view.ts'

/** The currency of an answer and its rate. */
export interface AnswerCurrency {
  code: string
  rate: Rate
}

/** Writes entries of one side. */
export interface ListingWriter {
  /** The entries as a JSON array; those whose item or provider is unknown here are left out. */
  write(entries: readonly LiveEntry[], currency: AnswerCurrency, withUrl: boolean): string
  /** The entries of one item as a JSON array of quotes, which name neither item nor link. */
  writeQuotes(entries: readonly LiveEntry[], currency: AnswerCurrency): string
  /** Where a provider sells an item: the row's own URL where it is a usable one, else by the provider's template. */
  urlOf(provider: Provider, item: CatalogItem, row: LiveRow | undefined): string
}

/** What the writer looks up. */
export interface ListingSources {
  itemOf(itemId: number): CatalogItem | undefined
  providerOf(key: string): Provider | undefined
  baseUrl: string
}

const INSTANTS_KEPT = 20_000
/** Texts kept on a row: US dollars with and without URL, as a quote, and one more currency. */
const VARIANTS_KEPT = 4

/** What a row's text depends on beside the row. */
interface Variant {
  name: string
  currency: AnswerCurrency
  members: 'quote' | 'entry' | 'entry with url'
}

/** Opens the writer of a side. */
export function openListingWriter(side: Side, sources: ListingSources): ListingWriter {
  const itemTexts = new Map<number, string | undefined>()
  const instants = new Map<number, string>()

  const instantText = (instant: number): string => {
    const known = instants.get(instant)
    if (known !== undefined) return known
    if (instants.size >= INSTANTS_KEPT) instants.clear()
    const text = new Date(instant).toISOString()
    instants.set(instant, text)
    return text
  }

  /** An item's id, name and phase never change, so its text is kept for ever. */
  const itemText = (itemId: number): string | undefined => {
    const known = itemTexts.get(itemId)
    if (known !== undefined) return known
    const item = sources.itemOf(itemId)
    if (!item) return undefined
    const { market_hash_name, phase } = item
    const text = `"item_id":${itemId},"market_hash_name":${ascii(market_hash_name)},"phase":${ascii(phase)},`
    itemTexts.set(itemId, text)
    return text
  }

  const amounts = (row: LiveRow, { code, rate }: AnswerCurrency): [string, string] =>
    row.currency === code
      ? [String(row.price), minorToDecimal(row.price)]
      : [minorDigits(row.priceMicroUsd, rate), toDecimal(row.priceMicroUsd, rate)]

  const urlOf = (provider: Provider, item: CatalogItem, row: LiveRow | undefined): string =>
    usableUrl(row?.url ?? null) ?? marketplaceUrl(provider, item)

  /** Price and quantity of a row and all up to the value of `last_updated`; `links` stand between. */
  const rowText = (row: LiveRow, currency: AnswerCurrency, links: string): string => {
    const [amount, decimal] = amounts(row, currency)
    const price =
      side === 'bid'
        ? `"highest_bid":${amount},"highest_bid_decimal":"${decimal}","num_bids":${row.quantity},`
        : `"lowest_ask":${amount},"lowest_ask_decimal":"${decimal}","quantity":${row.quantity},`
    return `${price}${links}"timestamp":"${instantText(row.seenAt)}","last_updated":"`
  }

  /** All of an entry but the value of `last_updated`, or undefined when its item or provider is unknown. */
  const opening = (entry: LiveEntry, { currency, members }: Variant): string | undefined => {
    const { itemId, listed } = entry
    const { provider: key, row } = listed
    const item = itemText(itemId)
    const provider = sources.providerOf(key)
    if (item === undefined || !provider) return undefined
    if (members === 'quote') return `{"provider":"${key}",${rowText(row, currency, '')}`
    const start = `{"provider":"${key}",${item}`
    if (side === 'bid') return start + rowText(row, currency, '')
    const link = `"link":${ascii(`${sources.baseUrl}/r/${key}/${itemId}`)},`
    if (members === 'entry') return start + rowText(row, currency, link)
    const url = `"url":${ascii(urlOf(provider, sources.itemOf(itemId) as CatalogItem, row))},`
    return start + rowText(row, currency, link + url)
  }

  const keptOpening = (entry: LiveEntry, asked: Variant): string | undefined => {
    const { serialised } = entry.listed
    for (const { variant, text } of serialised) if (variant === asked.name) return text
    const text = opening(entry, asked)
    if (text === undefined) return undefined
    if (serialised.length >= VARIANTS_KEPT) serialised.shift()
    serialised.push({ variant: asked.name, text })
    return text
  }

  const listText = (entries: readonly LiveEntry[], currency: AnswerCurrency, members: Variant['members']): string => {
    const asked = { name: `${currency.code} ${currency.rate.text} ${members}`, currency, members }
    let text = ''
    for (const entry of entries) {
      const start = keptOpening(entry, asked)
      if (start !== undefined) text += `${text === '' ? '' : ','}${start}${instantText(entry.lastUpdatedAt)}"}`
    }
    return `[${text}]`
  }

  return {
    urlOf,
    write: (entries, currency, withUrl) => listText(entries, currency, withUrl ? 'entry with url' : 'entry'),
    writeQuotes: (entries, currency) => listText(entries, currency, 'quote'),
  }
}

/** JSON text of a value with everything beyond ASCII escaped, so that a body costs no UTF-8 encoding. */
export function ascii(value: unknown): string {
  return JSON.stringify(value).replace(/[\u007f-\uffff]/g, escaped)
}

const escaped = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`

/** Only http and https may be told to a client or redirected to, whatever a provider sent. */
function usableUrl(text: string | null): string | undefined {
  if (text === null || !/^https?:\/\//i.test(text)) return undefined
  return URL.parse(text)?.href
}
