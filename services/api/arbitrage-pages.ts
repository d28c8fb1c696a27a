/**
 * A cache of pages of the arbitrage snapshot, as bytes.
 *
 * A snapshot is current for ten seconds and its page depends on the query alone, until a row of it passes the age limit:
 * then it is made again. Invariant: the cache belongs to one snapshot, the last one that was asked for, and is bounded; the
 * oldest pages are evicted first.
 */
import type { ArbitrageQuery } from '#schemas/api/arbitrage.ts'
import type { Instant } from '#schemas/values/instant.ts'
import { type ArbitrageView, freshUntil } from '#streams/market-summary/reader.ts'
import { addPairs, type PairSources } from './arbitrage-text.ts'
import { ByteText } from './byte-text.ts'
import { arbitragePage } from './queries/arbitrage.ts'

/** The rows of a page. */
export interface PageBytes {
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
  for (const row of rows) until = Math.min(until, freshUntil(view.columns, row, view.head.as_of))
  return { items: text.bytes(), hasNext, until }
}
