/**
 * GET /: what this is and where to go on, as a page for a browser and as JSON for a program; and the files of the page.
 *
 * Needs no key. The name of a file carries a hash of its content, so that it may be kept for a year. Links are relative, since a proxy
 * may pass only one of both roots. Invariant: the page loads nothing from any other host and runs no script but its file, which its
 * policy enforces.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { ProviderRegistry } from '#infra/config/providers.ts'
import { TIERS, type Tier, type TierLimits } from '#infra/config/tiers.ts'
import { definePage, type Endpoint } from '#infra/http/define-route.ts'
import { HttpError } from '#infra/http/http-error.ts'
import { VERSION } from '#infra/http/openapi.ts'
import { JSON_TYPE, sendDocument } from '#infra/http/reply.ts'

/** What the page is made of. */
interface LandingNeeds {
  registry: ProviderRegistry
  tiers: Record<Tier, TierLimits>
  /** Public root of the API, without a trailing slash. */
  baseUrl: string
}

const HTML_TYPE = 'text/html; charset=utf-8'
const YEAR_S = 31_536_000
const HASH_DIGITS = 16
const POLICY = [
  ...["default-src 'none'", "connect-src 'self'", "img-src 'self'", "script-src 'self'", "style-src 'self'"],
  ...["form-action 'none'", "base-uri 'none'", "frame-ancestors 'none'"],
].join('; ')
const TYPES: Record<string, string> = {
  'landing.css': 'text/css; charset=utf-8',
  'landing.js': 'text/javascript; charset=utf-8',
  'landing.svg': 'image/svg+xml',
}

/** The page, and its files. */
export function landingPages({ registry, tiers, baseUrl }: LandingNeeds): Endpoint[] {
  const files = Object.entries(TYPES).map(([file, type]) => ({ file, type, ...readHashed(file) }))
  const byName = new Map(files.map(file => [file.name, file]))
  const marketplaces = registry.all.length
  const values: Record<string, string | undefined> = {
    ...Object.fromEntries(files.map(({ file, name }) => [file, name])),
    base: baseUrl,
    version: VERSION,
    marketplaces: String(marketplaces),
    feedTiers: TIERS.filter(tier => tiers[tier].feed_connections > 0).join(', '),
  }
  const page = readAsset('landing.html')
    .toString()
    .replaceAll(/\{\{([\w.]+)\}\}/g, (_, name) => escaped(values[name] ?? ''))
  const about = JSON.stringify({
    name: 'marketlog',
    description: `Market data of ${marketplaces} marketplaces: asks, buy orders, sales, candles, history, live feeds.`,
    version: VERSION,
    links: {
      docs: `${baseUrl}/v1/docs`,
      openapi: `${baseUrl}/v1/openapi.json`,
      asyncapi: `${baseUrl}/v1/asyncapi.json`,
      llms: `${baseUrl}/v1/llms.txt`,
      health: `${baseUrl}/healthz`,
    },
  })
  const headers = ['Vary', 'Accept']
  return [
    definePage('get', '/', 'documents', ({ request, response }) =>
      // Of equal weights the first: a program that names no type takes any.
      request.accepts(['application/json', 'text/html']) === 'text/html'
        ? sendDocument(response, HTML_TYPE, page, { headers, policy: POLICY })
        : sendDocument(response, JSON_TYPE, about, { headers }),
    ),
    definePage('get', '/assets/:name', 'documents', ({ request, response }) => {
      const file = byName.get(String(request.params.name))
      if (!file) throw new HttpError('NOT_FOUND', 'There is no such file.')
      return sendDocument(response, file.type, file.body, { maxAgeSeconds: YEAR_S })
    }),
  ]
}

const readAsset = (file: string): Buffer => readFileSync(new URL(`../assets/${file}`, import.meta.url))

function readHashed(file: string): { name: string; body: Buffer } {
  const body = readAsset(file)
  const hash = createHash('sha256').update(body).digest('hex').slice(0, HASH_DIGITS)
  return { name: file.replace('.', `-${hash}.`), body }
}

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
