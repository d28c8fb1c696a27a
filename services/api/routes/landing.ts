/**
 * GET /: what this is and where to go on, as a page for a browser and as JSON for a program.
 *
 * Needs no key.
 */
import type { ProviderRegistry } from '#infra/config/providers.ts'
import { TIERS, type Tier, type TierLimits } from '#infra/config/tiers.ts'
import { definePage, type Endpoint } from '#infra/http/define-route.ts'
import { VERSION } from '#infra/http/openapi.ts'
import { bytes } from '#infra/http/reply.ts'
import { DOCUMENT, HTML_TYPE, policyOf, type Site } from '../site.ts'

/** What the page is made of. */
interface LandingNeeds {
  registry: ProviderRegistry
  tiers: Record<Tier, TierLimits>
  /** Public root of the API, without a trailing slash. */
  baseUrl: string
}

/** The page. */
export function landingPage({ registry, tiers, baseUrl }: LandingNeeds, site: Site): Endpoint {
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
