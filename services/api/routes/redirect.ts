/**
 * GET /r/{provider}/{item_id}: from the API to the marketplace; needs no key.
 *
 * Takes the live row's own URL, else fills the provider's template. It leads to http or https alone, and to no host but the
 * provider's own; unknown providers and items are 404.
 */
import type { ProviderRegistry } from '#infra/config/providers.ts'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { HttpError } from '#infra/http/http-error.ts'
import { bytes } from '#infra/http/reply.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { redirectParams } from '#schemas/api/listing.ts'
import { openListingWriter } from '../listing-text.ts'
import { itemNotFound } from '../queries/listing.ts'
import type { LiveView } from '../queries/live-view.ts'

/** What the redirect needs. */
export interface RedirectNeeds {
  catalog: CatalogReader
  registry: ProviderRegistry
  live: LiveView
  baseUrl: string
}

const ITEM_ID = /^\d{1,10}$/

/** The route. */
export function openListing({ catalog, registry, live, baseUrl }: RedirectNeeds): Route {
  const { urlOf } = openListingWriter('ask', {
    itemOf: id => catalog.byId(id),
    providerOf: key => registry.byKey.get(key),
    baseUrl,
  })
  return defineRoute({
    id: 'openListing',
    method: 'get',
    path: '/r/:provider/:item_id',
    group: 'Catalog',
    tiers: undefined,
    budget: 'redirects',
    params: redirectParams,
    areParamsChecked: false,
    summary: 'Redirect to the marketplace page of an item',
    description:
      'Needs no key; counts by address. This is the `link` of price entries. It leads to the offer whose price is shown, and to no host but those of the provider.',
    reply: {
      status: 302,
      description: 'To the marketplace.',
      headers: { Location: 'Page of the item at the provider.' },
    },
    errors: ['NOT_FOUND', 'ITEM_NOT_FOUND', 'PRICES_INDEX_UNAVAILABLE'],
    async handle({ request, response }) {
      const { provider: key, item_id: id } = request.params as { provider: string; item_id: string }
      const provider = registry.byKey.get(key)
      if (!provider) throw new HttpError('NOT_FOUND', 'There is no such provider.')
      const item = ITEM_ID.test(id) ? catalog.byId(Number(id)) : undefined
      if (!item) throw itemNotFound()
      const rows = await live.ofItems('ask', [item.item_id])
      const row = rows.find(entry => entry.listed.provider === provider.key)?.listed.row
      const url = urlOf(provider, item, row)
      if (url === undefined) throw new HttpError('NOT_FOUND', 'The offer is at no host of its provider.')
      return bytes(response, undefined, { status: 302, headers: ['Location', url] })
    },
  })
}
