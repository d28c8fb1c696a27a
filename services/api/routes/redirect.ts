/**
 * GET /r/{provider}/{item_id}: from the API to the marketplace; needs no key.
 *
 * Reads the live row for its own URL, else fills the provider's template. Invariant: it leads to http or https
 * alone; unknown providers and items are 404.
 */
import type { RequestHandler, Router } from 'express'
import { ApiError, itemNotFound } from '../errors.ts'
import { openListingWriter } from '../listing-text.ts'
import type { ApiParts } from '../parts.ts'
import { sendEmpty } from '../reply.ts'

const ITEM_ID = /^\d{1,10}$/

/** Adds the route. */
export function addRedirectRoute(router: Router, withoutKey: RequestHandler, parts: ApiParts): void {
  const { catalog, registry, live } = parts
  const { urlOf } = openListingWriter('ask', {
    itemOf: id => catalog.byId(id),
    providerOf: key => registry.byKey.get(key),
    baseUrl: parts.baseUrl,
  })
  router.get('/r/:provider/:item_id', withoutKey, async (request, response) => {
    const { provider: key, item_id: id } = request.params as { provider: string; item_id: string }
    const provider = registry.byKey.get(key)
    if (!provider) throw new ApiError('NOT_FOUND', 'There is no such provider.')
    const item = ITEM_ID.test(id) ? catalog.byId(Number(id)) : undefined
    if (!item) throw itemNotFound()
    const rows = await live.ofItems('ask', [item.item_id])
    const row = rows.find(entry => entry.listed.provider === provider.key)?.listed.row
    sendEmpty(response, 302, ['Location', urlOf(provider, item, row), 'Content-Length', '0'])
  })
}
