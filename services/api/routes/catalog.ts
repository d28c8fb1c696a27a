/** Rules: DECISIONS.md, "Catalog". Answers are kept as bytes (queries/catalog-pages.ts). */
import type { Response } from 'express'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { bytes, type Sent, stream } from '#infra/http/reply.ts'
import { noteShared } from '#infra/runtime/connection-limits.ts'
import { imagesQuery, imagesReply, itemsMetadataReply, itemsQuery, itemsReply } from '#schemas/api/catalog.ts'
import { ALL, json } from '#schemas/api/operation.ts'
import type { ApiContext } from '../context.ts'
import { type CatalogPage, openCatalogPages } from '../queries/catalog-pages.ts'
import { indexNames } from '../queries/near-names.ts'

export function catalogRoutes({ catalog }: ApiContext): Route[] {
  const pages = openCatalogPages(catalog)
  pages.warm()
  indexNames(catalog)
  return [
    defineRoute({
      id: 'listItems',
      method: 'get',
      path: '/items',
      group: 'Catalog',
      tiers: ALL,
      summary: 'The catalog, filtered',
      description:
        'Without `limit` all matches come in one answer. Categories go from class to kind: `item_type` (Weapon), `item_subtype` (Rifles), `weapon_type` (Assault Rifle), `base_name` (AK-47).',
      query: itemsQuery,
      reply: json('ItemsReply', itemsReply, 'Items by ascending id.'),
      handle: async ({ query, response }) => sendPage(response, await pages.items(query)),
    }),
    defineRoute({
      id: 'getItemsMetadata',
      method: 'get',
      path: '/items/metadata',
      group: 'Catalog',
      tiers: ALL,
      summary: 'Size of the catalog and the values of its filters',
      description: 'Each list holds the values that at least one item has.',
      reply: json('ItemsMetadataReply', itemsMetadataReply, 'Counts and values.'),
      handle: async ({ response }) => sendPage(response, await pages.metadata()),
    }),
    defineRoute({
      id: 'listImages',
      method: 'get',
      path: '/images',
      group: 'Catalog',
      tiers: ALL,
      summary: 'Image URLs by display name',
      description: '`format=webp` changes `.png` suffixes to `.webp`.',
      query: imagesQuery,
      reply: json('ImagesReply', imagesReply, 'One or more URLs per name.'),
      handle: async ({ query, response }) => sendPage(response, await pages.images(query.format)),
    }),
  ]
}

function sendPage(response: Response, page: CatalogPage): Sent | Promise<Sent> {
  const { pieces } = page
  if (Symbol.asyncIterator in pieces) {
    return stream(response, pieces, { headers: ['Content-Length', String(page.bytes)] })
  }
  noteShared(response)
  return bytes(response, pieces)
}
