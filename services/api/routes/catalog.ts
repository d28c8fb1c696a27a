/**
 * GET /items, /items/metadata and /images: the catalog, from memory.
 *
 * Rules: DECISIONS.md, "Catalog". Answers are kept as bytes (queries/catalog-pages.ts).
 */
import type { Router } from 'express'
import { imagesQuery, itemsQuery } from '#schemas/api/catalog.ts'
import type { Allow } from '../guard.ts'
import type { ApiParts } from '../parts.ts'
import { openCatalogPages } from '../queries/catalog-pages.ts'
import { indexNames } from '../queries/near-names.ts'
import { send } from '../reply.ts'
import { parse } from '../request.ts'

/** Adds the routes. */
export function addCatalogRoutes(router: Router, allow: Allow, parts: ApiParts): void {
  const pages = openCatalogPages(parts.catalog)
  pages.warm()
  indexNames(parts.catalog)
  const everyone = allow('free', 'starter', 'pro', 'quant')

  router.get('/items', everyone, (request, response) => {
    send(response, 200, pages.items(parse(itemsQuery, request)))
  })

  router.get('/items/metadata', everyone, (_request, response) => {
    send(response, 200, pages.metadata())
  })

  router.get('/images', everyone, (request, response) => {
    send(response, 200, pages.images(parse(imagesQuery, request).format))
  })
}
