/**
 * Which page of a provider's API comes next.
 *
 * Pure. Invariant: a link is followed within the origin of the first page only, since the headers go
 * with it; a page that leads back to one already read is a fault, so paging always ends.
 */
import type { HttpJsonOptions } from '#infra/config/market.ts'
import { FetchFailure } from '../../bounded-fetch.ts'
import type { RawEntry } from '../../source.ts'
import type { MappedPage } from './map.ts'

export function firstPage(url: URL, paging: HttpJsonOptions['paging']): URL {
  if (paging?.by === 'page') return withParameter(url, paging.parameter, paging.first)
  if (paging?.by === 'offset') return withParameter(url, paging.parameter, 0)
  return url
}

/** The next page's URL; undefined at the end of the refresh. `read` counts the pages so far, this one included. Throws FetchFailure. */
export function nextPage(
  paging: HttpJsonOptions['paging'],
  first: URL,
  current: URL,
  page: Pick<MappedPage, 'rows' | 'paging'>,
  read: number,
): URL | undefined {
  if (!paging) return undefined
  switch (paging.by) {
    case 'page': {
      const isLast = paging.more === undefined ? page.rows === 0 : !page.paging
      return isLast ? undefined : withParameter(first, paging.parameter, paging.first + read)
    }
    case 'offset':
      return page.rows < paging.step ? undefined : withParameter(first, paging.parameter, read * paging.step)
    case 'cursor':
      if (isNothing(page.paging)) return undefined
      if (typeof page.paging === 'string' || typeof page.paging === 'number')
        return withParameter(first, paging.parameter, page.paging)
      throw new FetchFailure('paging', 'the cursor is no text')
    case 'link':
      return linked(page.paging, current)
  }
}

function linked(link: unknown, current: URL): URL | undefined {
  if (isNothing(link)) return undefined
  const url = typeof link === 'string' ? URL.parse(link, current.href) : null
  if (!url) throw new FetchFailure('paging', 'the link to the next page is no URL')
  if (url.origin === current.origin) return url
  throw new FetchFailure('paging', `the next page is at another origin, ${url.origin}`)
}

/**
 * The rows of a page of sales without those that the page before ended with: a sale that comes while pages are read
 * moves all others on by one, and the last of a page comes again as the first of the next. Identical sales on both sides of a page's
 * end look the same; the next refresh, in which they have moved on, shows them together.
 */
export function withoutRepeats(before: readonly RawEntry[], page: readonly RawEntry[]): readonly RawEntry[] {
  const [last, first] = [before, page].map(rows => rows.map(row => JSON.stringify(row))) as [string[], string[]]
  for (let count = Math.min(last.length, first.length); count > 0; count--) {
    const from = last.length - count
    if (last.every((row, i) => i < from || row === first[i - from])) return page.slice(count)
  }
  return page
}

const isNothing = (value: unknown): boolean => value === undefined || value === null || value === '' || value === false

function withParameter(url: URL, parameter: string, value: string | number): URL {
  const next = new URL(url)
  next.searchParams.set(parameter, String(value))
  return next
}
