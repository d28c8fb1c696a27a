/**
 * Polls a provider's HTTP API for JSON, page by page.
 *
 * Reads the network; keeps the pages of the last whole refresh that came with a validator. Invariant: a refresh is all of
 * its pages or a failure. A page that is unchanged (304) is published again as observed now, so `last_updated` advances
 * and nothing is withdrawn. Time, bytes, pages and retries are bounded; secrets stay in headers.
 */
import type { HttpJsonOptions } from '#infra/config/market.ts'
import type { Environment } from '#infra/runtime/secret.ts'
import { FetchFailure, fetchText } from '../../bounded-fetch.ts'
import type { Connector, RawEntry, Refresh, SourceSettings } from '../../source.ts'
import { compileMapping, type MappedPage, type PageReader } from './map.ts'
import { firstPage, nextPage, withoutRepeats } from './paging.ts'

interface Page {
  mapped: MappedPage
  etag: string | undefined
  lastModified: string | undefined
}

interface Api {
  source: SourceSettings
  options: HttpJsonOptions
  url: URL
  headers: Record<string, string>
  readPage: PageReader
}

/** No header has this name. */
const ADDRESS = ':address'

export function openHttpJson(source: SourceSettings, options: HttpJsonOptions, env: Environment): Connector {
  const texts = resolveNames({ ...options.headers, [ADDRESS]: options.url }, source.provider, env)
  const { [ADDRESS]: address = '', ...headers } = texts
  const url = URL.parse(address)
  if (!url || !/^https?:$/.test(url.protocol)) throw new Error(`url of ${source.provider} is no http(s) URL`)
  const api = { source, options, url, headers, readPage: compileMapping(options, source) }
  let pages: ReadonlyMap<string, Page> = new Map()
  let quietUntil = 0
  return {
    async *poll({ now, signal }) {
      // The refresh that was refused is the failure; one that is not tried is none.
      if (performance.now() < quietUntil) return
      try {
        const read = await readPages(api, pages, signal)
        pages = read.pages
        yield { kind: 'refresh', observedAt: now, currency: read.currency, entries: read.entries } satisfies Refresh
      } catch (error) {
        if (signal.aborted) return
        if (!(error instanceof FetchFailure)) throw error
        quietUntil = error.quietUntil
        yield { kind: 'failed', observedAt: now, reason: error.reason, detail: error.message }
      }
    },
  }
}

function resolveNames(texts: Record<string, string>, provider: string, env: Environment): Record<string, string> {
  const missing = new Set<string>()
  const resolve = (_: string, name: string): string => {
    const value = env[name]
    if (!value) missing.add(name)
    return value ?? ''
  }
  const resolved = Object.entries(texts).map(([name, text]) => [
    name.toLowerCase(),
    text.replace(/\$\{(\w+)\}/g, resolve),
  ])
  if (missing.size === 0) return Object.fromEntries(resolved)
  throw new Error(`the feed of ${provider} needs ${[...missing].join(', ')} in the environment`)
}

async function readPages(
  api: Api,
  before: ReadonlyMap<string, Page>,
  stopping: AbortSignal,
): Promise<{ entries: RawEntry[]; currency: string; pages: Map<string, Page> }> {
  const { source, options } = api
  const signal = AbortSignal.any([stopping, AbortSignal.timeout(options.total_timeout_ms)])
  const pages = new Map<string, Page>()
  const seen = new Set<string>()
  const first = firstPage(api.url, options.paging)
  const portions: (readonly RawEntry[])[] = []
  let entriesBefore: readonly RawEntry[] = []
  let currency: string | undefined
  let bytesLeft = options.max_bytes
  for (let url = first; ; ) {
    if (seen.has(url.href)) throw new FetchFailure('paging', 'a page leads back to one that was read')
    if (seen.size >= options.max_pages) throw new FetchFailure('too_many_pages', `over ${options.max_pages} pages`)
    seen.add(url.href)
    const { page, bytes } = await fetchPage(api, url, before.get(url.href), bytesLeft, signal)
    bytesLeft -= bytes
    if (page.etag || page.lastModified) pages.set(url.href, page)
    const { entries } = page.mapped
    portions.push(source.side === 'sale' ? withoutRepeats(entriesBefore, entries) : entries)
    entriesBefore = entries
    const own = page.mapped.currency ?? source.currency
    if (own !== (currency ?? own))
      throw new FetchFailure('bad_mapping', `currency: pages are in ${currency} and in ${own}`)
    currency = own
    const next = nextPage(options.paging, first, url, page.mapped, seen.size)
    if (!next) return { entries: portions.flat(), currency, pages }
    url = next
  }
}

async function fetchPage(
  { options, headers, readPage }: Api,
  url: URL,
  before: Page | undefined,
  maxBytes: number,
  signal: AbortSignal,
): Promise<{ page: Page; bytes: number }> {
  const conditions: Record<string, string> = {}
  if (before?.etag) conditions['if-none-match'] = before.etag
  else if (before?.lastModified) conditions['if-modified-since'] = before.lastModified
  const bounds = { ...options, max_bytes: maxBytes, signal }
  const { status, text, bytes, ...validators } = await fetchText(url, { ...headers, ...conditions }, bounds)
  if (status === 200) return { page: { mapped: await readPage(parse(text)), ...validators }, bytes }
  if (before) return { page: before, bytes }
  throw new FetchFailure('http_status', 'answered 304 to an unconditional request')
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    const reason = error instanceof Error ? error.message.slice(0, 200) : String(error)
    throw new FetchFailure('bad_json', reason)
  }
}
