/**
 * The documents of the API, GET /openapi.json, /asyncapi.json (feeds and topics), /llms.txt, and the page /docs/reference that browses
 * the first; the landing page, and the console.
 *
 * Needs no key. The reference's script is Scalar's stand-alone build (MIT, 1.72.1): its package would install 270 others for that one
 * file. It writes styles into the page, so the policy of this page alone permits them.
 */
import { createHash } from 'node:crypto'
import { TIERS } from '#infra/config/tiers.ts'
import { definePage, type Endpoint } from '#infra/http/define-route.ts'
import { HttpError } from '#infra/http/http-error.ts'
import { openApiDocument, VERSION } from '#infra/http/openapi.ts'
import { bytes, isNamed } from '#infra/http/reply.ts'
import { asyncApiDocument } from '#schemas/api/asyncapi.ts'
import { llmsText } from '#schemas/api/llms-text.ts'
import type { Operation } from '#schemas/api/operation.ts'
import type { ApiContext } from '../context.ts'
import type { Guide } from '../guide-text.ts'
import { DOCUMENT, filesAt, HTML_TYPE, policyOf, readConsole, rootFrom, type Site } from '../site.ts'

const REFERENCE_POLICY = policyOf("font-src 'self' data:", "img-src 'self' data:", "style-src 'self' 'unsafe-inline'")

export function documentPages(
  { operations, guides }: { operations: readonly Operation[]; guides: readonly Guide[] },
  { baseUrl }: ApiContext,
  site: Site,
): Endpoint[] {
  const reference = site.page('reference.html', { path: 'docs/reference', texts: {} })
  return [
    documentAt('/openapi.json', JSON.stringify(openApiDocument(operations, { baseUrl }))),
    documentAt('/asyncapi.json', JSON.stringify(asyncApiDocument({ baseUrl }))),
    documentAt('/llms.txt', llmsText(operations, guides, baseUrl), { type: 'text/plain; charset=utf-8' }),
    documentAt('/docs/reference', reference, { type: HTML_TYPE, policy: REFERENCE_POLICY }),
  ]
}

/** As bytes: encoding the description for each request of the hostile clients was a tenth of all that the process did. */
function documentAt(path: string, text: string, more: { type?: string; policy?: string } = {}): Endpoint {
  const body = Buffer.from(text)
  return definePage('get', path, 'documents', ({ response }) => bytes(response, body, { ...more, cache: DOCUMENT }))
}

/** GET /: what this is and where to go on, as a page for a browser and as JSON for a program. */
export function landingPage({ registry, tiers, baseUrl }: ApiContext, site: Site): Endpoint {
  const marketplaces = registry.all.length
  const feedTiers = TIERS.filter(tier => tiers[tier].feed_connections > 0).join(', ')
  const page = site.page('landing.html', {
    path: '',
    texts: { base: baseUrl, marketplaces: String(marketplaces), feedTiers },
  })
  const about = JSON.stringify({
    name: 'marketlog',
    description: `Market data of ${marketplaces} marketplaces: asks, buy orders, sales, candles, history, live feeds.`,
    version: VERSION,
    links: {
      docs: `${baseUrl}/v1/docs`,
      reference: `${baseUrl}/v1/docs/reference`,
      openapi: `${baseUrl}/v1/openapi.json`,
      asyncapi: `${baseUrl}/v1/asyncapi.json`,
      llms: `${baseUrl}/v1/llms.txt`,
      health: `${baseUrl}/healthz`,
    },
  })
  const headers = ['Vary', 'Accept']
  return definePage('get', '/', 'documents', ({ request, response }) =>
    // Of equal weights the first: a program that names no type takes any.
    request.accepts(['application/json', 'text/html']) === 'text/html'
      ? bytes(response, page, { type: HTML_TYPE, cache: DOCUMENT, headers, policy: policyOf() })
      : bytes(response, about, { cache: DOCUMENT, headers }),
  )
}

/** GET /console and what is below it: one page for all addresses, which is asked for each time by its entity tag, and its files. */
export function consolePages(): Endpoint[] {
  const built = readConsole()
  const etag = `"${createHash('sha256')
    .update(built?.page ?? '')
    .digest('hex')
    .slice(0, 32)}"`
  return [
    filesAt('/console/assets', built?.files ?? new Map()),
    definePage('get', '/console{/*path}', 'documents', ({ request, response }) => {
      if (!built) throw new HttpError('NOT_FOUND', 'The console is not built here; npm run console:build does it.')
      const path = request.path.slice(1)
      // From `console` itself the way leads down, from all below it up.
      const root = path === 'console' ? 'console/' : rootFrom(path).slice('../'.length)
      const body = built.page.replaceAll(/(src|href)="\.\//g, `$1="${root}`)
      const isUnchanged = isNamed(etag, request.headers['if-none-match'])
      const options = { type: HTML_TYPE, cache: 'no-cache', headers: ['ETag', etag], policy: policyOf() }
      // Its policy too: a browser puts the headers of a 304 in the place of those that it has kept.
      return isUnchanged ? bytes(response, undefined, { ...options, status: 304 }) : bytes(response, body, options)
    }),
  ]
}
