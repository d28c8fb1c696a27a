/**
 * GET /inventory/gamestore and /inventory/gamestore/lookup: what an account of the platform holds now.
 *
 * Rules: DECISIONS.md, "Portfolios and inventories". Nothing is stored.
 */
import type { Router } from 'express'
import type { z } from 'zod'
import { type inventoryReply, lookupQuery } from '#schemas/api/inventory.ts'
import { matchAsset } from '#services/inventory/reader.ts'
import { credentialOf, type Guard } from '../guard.ts'
import { type LinkedInventory, readInventory, readLinkedInventory } from '../inventory-access.ts'
import type { ApiParts } from '../parts.ts'
import { EVERYBODY } from '../portfolio-access.ts'
import { send } from '../reply.ts'
import { parse } from '../request.ts'

type Reply = z.infer<typeof inventoryReply>

/** Adds both routes. */
export function addInventoryRoutes(router: Router, guard: Guard, parts: ApiParts): void {
  const open = guard.account(...EVERYBODY)
  router.get('/inventory/gamestore', open, async (_request, response) => {
    const inventory = await readLinkedInventory(parts, credentialOf(response).accountId)
    send(response, 200, JSON.stringify(replyOf(parts, inventory)))
  })
  router.get('/inventory/gamestore/lookup', open, async (request, response) => {
    const { gamestore_id } = parse(lookupQuery, request)
    send(response, 200, JSON.stringify(replyOf(parts, await readInventory(parts, gamestore_id))))
  })
}

function replyOf({ catalog }: ApiParts, inventory: LinkedInventory): Reply {
  return {
    data: inventory.map(asset => ({
      assetid: asset.assetid,
      market_hash_name: asset.marketHashName,
      phase: matchAsset(catalog, asset)?.phase ?? null,
      name: asset.name,
      icon_url: asset.iconUrl,
      tradable: asset.isTradable,
      marketable: asset.isMarketable,
      quantity: asset.quantity,
      float_value: asset.floatValue,
      paint_seed: asset.paintSeed,
      inspect_link: asset.inspectLink,
      name_tag: asset.nameTag,
      stickers: asset.stickers,
      charms: asset.charms,
    })),
    total_count: inventory.length,
  }
}
