/**
 * Writes the entries of GET /prices and GET /bids, and the quotes of batch lookups, as JSON arrays.
 *
 * Pure but for a cache: the part of an entry that depends on the row alone is kept on the row
 * (CachedRow.serialised), so that an unchanged row costs one concatenation. The text itself is that of
 * schemas/api/entry-text.ts, which bulk snapshots share; test/contract holds it against the zod schema.
 *
 * JSON.stringify of 41 objects took 30 us, of which this leaves 4 (unchanged rows) to 20 (new ones).
 */
import { marketplaceUrl, type Provider } from '#infra/config/providers.ts'
import { type AnswerCurrency, type EntryMembers, type EntryText, openEntryText } from '#schemas/api/entry-text.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import type { LiveEntry } from '#streams/live-view/reader.ts'

/** An entry of an answer. */
export interface ListedEntry extends LiveEntry {
  /** The phase whose price it shows, where it stands for all phases of a finish. */
  offeredItemId?: number
}

/** Writes entries of one side. */
export interface ListingWriter {
  /** The entries as a JSON array; those whose item or provider is unknown here are left out. */
  write(entries: readonly ListedEntry[], currency: AnswerCurrency, withUrl: boolean): string
  /** The entries of one item as a JSON array of quotes, which name neither item nor link. */
  writeQuotes(entries: readonly LiveEntry[], currency: AnswerCurrency): string
  urlOf: EntryText<Provider>['urlOf']
}

/** What the writer looks up. */
interface ListingSources {
  itemOf(itemId: number): CatalogItem | undefined
  providerOf(key: string): Provider | undefined
  baseUrl: string
}

/** Texts kept on a row: US dollars with and without URL, as a quote, and one more currency. */
const VARIANTS_KEPT = 4

/** What a row's text depends on beside the row. */
interface Variant {
  name: string
  currency: AnswerCurrency
  members: EntryMembers
}

/** Opens the writer of a side. */
export function openListingWriter(side: Side, sources: ListingSources): ListingWriter {
  const entryText = openEntryText<Provider>(side, { ...sources, marketplaceUrl })

  const keptOpening = ({ itemId, listed, offeredItemId }: ListedEntry, asked: Variant): string | undefined => {
    const { provider, row, serialised } = listed
    for (const { variant, text } of serialised) if (variant === asked.name) return text
    const text = entryText.opening({ itemId, provider, row, offeredItemId }, asked.currency, asked.members)
    if (text === undefined) return undefined
    if (serialised.length >= VARIANTS_KEPT) serialised.shift()
    serialised.push({ variant: asked.name, text })
    return text
  }

  const listText = (entries: readonly ListedEntry[], currency: AnswerCurrency, members: EntryMembers): string => {
    const asked = { name: `${currency.code} ${currency.rate.text} ${members}`, currency, members }
    let text = ''
    for (const entry of entries) {
      const start = keptOpening(entry, asked)
      if (start !== undefined) text += `${text === '' ? '' : ','}${start}${entryText.closing(entry.lastUpdatedAt)}`
    }
    return `[${text}]`
  }

  return {
    urlOf: entryText.urlOf,
    write: (entries, currency, withUrl) => listText(entries, currency, withUrl ? 'entry with url' : 'entry'),
    writeQuotes: (entries, currency) => listText(entries, currency, 'quote'),
  }
}
