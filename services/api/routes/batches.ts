/**
 * POST /prices/batch and POST /bids/batch: the quotes of up to a hundred items in one answer.
 *
 * Rules: DECISIONS.md, "Prices and bids". Written as text (listing-text.ts); its schema is schemas/api/batch.ts.
 */
import type { Router } from 'express'
import { batchBody } from '#schemas/api/batch.ts'
import { ascii } from '#schemas/api/entry-text.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { parseBody, readBody } from '../body.ts'
import type { Allow } from '../guard.ts'
import { openListingWriter } from '../listing-text.ts'
import type { ApiParts } from '../parts.ts'
import { readBatch } from '../queries/batch.ts'
import { sendAscii } from '../reply.ts'

/** Adds both routes. */
export function addBatchRoutes(router: Router, allow: Allow, parts: ApiParts): void {
  const guard = allow('starter', 'pro', 'quant')
  for (const { path, side } of [
    { path: '/prices/batch', side: 'ask' },
    { path: '/bids/batch', side: 'bid' },
  ] as const)
    addBatchRoute(router, path, guard, side, parts)
}

function addBatchRoute(router: Router, path: string, guard: ReturnType<Allow>, side: Side, parts: ApiParts): void {
  const { catalog, registry, fx, baseUrl, now } = parts
  const providers = side === 'ask' ? registry.askKeys : registry.bidKeys
  const schema = batchBody({ providers, isCurrency: code => fx.isCurrency(code) })
  const writer = openListingWriter(side, {
    itemOf: id => catalog.byId(id),
    providerOf: key => registry.byKey.get(key),
    baseUrl,
  })

  router.post(path, guard, readBody, async (request, response) => {
    const body = parseBody(schema, request)
    const currency = fx.currencyOf(body.currency)
    const batch = await readBatch({ ...parts, side, providers, catalog }, body)
    const items = batch.found.map(({ itemId, entries }) => {
      const { market_hash_name, phase } = catalog.byId(itemId) as CatalogItem
      const named = `"item_id":${itemId},"market_hash_name":${ascii(market_hash_name)},"phase":${ascii(phase)}`
      return `{${named},"quotes":${writer.writeQuotes(entries, currency)}}`
    })
    const meta = ascii({
      currency: currency.code,
      requested_item_count: (body.item_ids?.length ?? 0) + (body.market_hash_names?.length ?? 0),
      found_item_count: items.length,
      providers_queried: batch.providersQueried,
      generated_at: formatInstant(now()),
    })
    const missing = `"items_not_found":${ascii(batch.itemsNotFound)},"names_not_found":${ascii(batch.namesNotFound)}`
    sendAscii(response, 200, `{"meta":${meta},"items":[${items.join(',')}],${missing}}`)
  })
}
