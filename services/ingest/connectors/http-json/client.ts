/**
 * Polls a provider's HTTP API for JSON, page by page.
 *
 * Reads the network; keeps the pages of the last whole refresh that came with a validator. Invariant: a refresh is all of
 * its pages or a failure. A page that is unchanged (304) is published again as observed now, so `last_updated` advances
 * and nothing is withdrawn. Time, bytes, pages and retries are bounded; secrets stay in headers.
 */
import type { HttpJsonOptions } from '#infra/config/market.ts'
import type { Environment } from '#infra/runtime/secret.ts'
import { type FetchedText, FetchFailure, fetchText } from '../../bounded-fetch.ts'
import type { Connector, FailedRefresh, RawEntry, Refresh, SourceSettings } from '../../source.ts'
import { compileMapping, type MappedPage, MappingFailure, type PageReader } from './map.ts'
import { firstPage, nextPage, withoutRepeats } from './paging.ts'

interface KeptPage {
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
  let kept: ReadonlyMap<string, KeptPage> = new Map()
  let quietUntil = 0
  return {
    async *poll({ now, signal }) {
      // The refresh that was refused is the failure; one that is not tried is none.
      if (performance.now() < quietUntil) return
      try {
        const read = await readPages(api, kept, signal)
        kept = read.pages
        yield { kind: 'refresh', observedAt: now, currency: read.currency, entries: read.entries } satisfies Refresh
      } catch (error) {
        if (signal.aborted) return
        if (error instanceof FetchFailure) quietUntil = error.quietUntil
        yield failureOf(error, now)
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

function failureOf(error: unknown, observedAt: number): FailedRefresh {
  const failed = (reason: string, detail: string): FailedRefresh => ({ kind: 'failed', observedAt, reason, detail })
  if (error instanceof FetchFailure) return failed(error.reason, error.message)
  if (error instanceof MappingFailure) return failed('bad_mapping', error.message)
  throw error
}

async function readPages(
  api: Api,
  kept: ReadonlyMap<string, KeptPage>,
  stopping: AbortSignal,
): Promise<{ entries: RawEntry[]; currency: string; pages: Map<string, KeptPage> }> {
  const { source, options } = api
  const signal = AbortSignal.any([stopping, AbortSignal.timeout(options.total_timeout_ms)])
  const pages = new Map<string, KeptPage>()
  const seen = new Set<string>()
  const first = firstPage(api.url, options.paging)
  const portions: (readonly RawEntry[])[] = []
  let before: readonly RawEntry[] = []
  let currency: string | undefined
  let bytesLeft = options.max_bytes
  for (let url = first; ; ) {
    if (seen.has(url.href)) throw new FetchFailure('paging', 'a page leads back to one that was read')
    if (seen.size >= options.max_pages) throw new FetchFailure('too_many_pages', `over ${options.max_pages} pages`)
    seen.add(url.href)
    const fetched = await fetchPage(api, url, kept.get(url.href), bytesLeft, signal)
    bytesLeft -= fetched.bytes
    const page = await pageOf(api, fetched, kept.get(url.href))
    if (page.etag || page.lastModified) pages.set(url.href, page)
    const { entries } = page.mapped
    portions.push(source.side === 'sale' ? withoutRepeats(before, entries) : entries)
    before = entries
    const own = page.mapped.currency ?? source.currency
    if (own !== (currency ?? own)) throw new MappingFailure(`currency: pages are in ${currency} and in ${own}`)
    currency = own
    const next = nextPage(options.paging, first, url, page.mapped, seen.size)
    if ('fault' in next) throw new FetchFailure('paging', next.fault)
    if ('end' in next) return { entries: portions.flat(), currency, pages }
    url = next.url
  }
}

function fetchPage(
  { options, headers }: Api,
  url: URL,
  kept: KeptPage | undefined,
  maxBytes: number,
  signal: AbortSignal,
): Promise<FetchedText> {
  const conditions: Record<string, string> = {}
  if (kept?.etag) conditions['if-none-match'] = kept.etag
  else if (kept?.lastModified) conditions['if-modified-since'] = kept.lastModified
  return fetchText(
    url,
    { ...headers, ...conditions },
    {
      requestTimeoutMs: options.request_timeout_ms,
      maxBytes,
      maxRedirects: options.max_redirects,
      retries: options.retries,
      retryAfterMs: options.retry_after_ms,
      signal,
    },
  )
}

async function pageOf(api: Api, fetched: FetchedText, kept: KeptPage | undefined): Promise<KeptPage> {
  if (fetched.status === 304) {
    if (!kept) throw new FetchFailure('http_status', 'answered 304 to an unconditional request')
    return kept
  }
  const mapped = await api.readPage(parse(fetched.text))
  return { mapped, etag: fetched.etag, lastModified: fetched.lastModified }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    const reason = error instanceof Error ? error.message.slice(0, 200) : String(error)
    throw new FetchFailure('bad_json', reason)
  }
}
