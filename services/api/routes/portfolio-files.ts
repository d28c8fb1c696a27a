/**
 * The routes that fill a portfolio from files and inventories, and export it as a file.
 *
 * Rules: DECISIONS.md, "Portfolios and inventories". Invariant: an import is stored whole or not at all; an export is read
 * in slices, so its size costs no memory.
 */
import type { Router } from 'express'
import { exportQuery, importBody, portfolioParams } from '#schemas/api/portfolios.ts'
import { matchAsset } from '#services/inventory/reader.ts'
import { answeredBefore } from '#services/portfolios/commands.ts'
import { importCsv } from '#services/portfolios/csv/commands.ts'
import type { CsvScope } from '#services/portfolios/csv/reader.ts'
import {
  LEDGER_HEADER,
  readCsv,
  SNAPSHOT_HEADER,
  writeLedgerRows,
  writeSnapshotRows,
} from '#services/portfolios/csv/reader.ts'
import { type InventoryImport, importAssets, type NewEntry } from '#services/portfolios/entries/commands.ts'
import { listEntries } from '#services/portfolios/entries/reader.ts'
import { findPortfolio } from '#services/portfolios/reader.ts'
import { parseBody, readBody } from '../body.ts'
import { withUpload } from '../csv-upload.ts'
import { credentialOf, type Guard } from '../guard.ts'
import { type LinkedInventory, readLinkedInventory } from '../inventory-access.ts'
import type { ApiParts } from '../parts.ts'
import { EVERYBODY, idempotencyKeyOf, kept, namedItem, storeOf, writeScope } from '../portfolio-access.ts'
import { send } from '../reply.ts'
import { parse, parseParams } from '../request.ts'
import { sendParts } from '../send-parts.ts'
import { latestDay, ledgerSlices } from './portfolios.ts'

/** Adds the routes. */
export function addPortfolioFileRoutes(router: Router, guard: Guard, parts: ApiParts): void {
  const open = guard.account(...EVERYBODY)
  const store = storeOf(parts)

  router.post('/portfolio/:id/import/csv', open, async (request, response) => {
    const { id } = parseParams(portfolioParams, request)
    const { accountId } = credentialOf(response)
    await kept(findPortfolio(store, accountId, id))
    const result = await withUpload(request, response, async file => {
      const scope = writeScope(parts, response, id, idempotencyKeyOf(request, 'importCsv', id, file))
      return kept(importCsv(store, scope, await readCsv(file, csvScope(parts))))
    })
    send(response, 200, JSON.stringify(result))
  })
  router.get('/portfolio/:id/export', open, async (request, response) => {
    const { id } = parseParams(portfolioParams, request)
    const { type } = parse(exportQuery, request)
    await kept(findPortfolio(store, credentialOf(response).accountId, id))
    const disposition = `attachment; filename="portfolio-${id}-${type}.csv"`
    const body = type === 'transactions' ? ledgerFile(parts, id) : snapshotFile(parts, id)
    await sendParts(response, 'text/csv; charset=utf-8', body, ['Content-Disposition', disposition])
  })
  router.post('/portfolio/:id/import', open, readBody, async (request, response) => {
    const { id } = parseParams(portfolioParams, request)
    request.body ??= {}
    const { asset_ids } = parseBody(importBody, request)
    const { accountId } = credentialOf(response)
    await kept(findPortfolio(store, accountId, id))
    const idempotencyKey = idempotencyKeyOf(request, 'importInventory', id, JSON.stringify(asset_ids ?? null))
    const scope = writeScope(parts, response, id, idempotencyKey)
    const before = await kept(answeredBefore<InventoryImport>(parts.database.rows, scope))
    if (before) return send(response, 200, JSON.stringify(before))
    const { entries, unresolved } = chooseAssets(parts, await readLinkedInventory(parts, accountId), asset_ids)
    const result = await kept(importAssets(store, scope, entries, unresolved))
    send(response, 200, JSON.stringify(result))
  })
}

function csvScope(parts: ApiParts): CsvScope {
  const { catalog, fx } = parts
  return {
    idOf: (name, phase) => catalog.idOf(name, phase),
    nameOf: id => catalog.byId(id)?.market_hash_name,
    isCurrency: code => fx.isCurrency(code),
    latestDay: latestDay(parts),
  }
}

async function* ledgerFile(parts: ApiParts, portfolioId: string): AsyncGenerator<string> {
  yield LEDGER_HEADER
  yield* ledgerSlices(parts, portfolioId, 'oldest', records =>
    writeLedgerRows(records.map(record => ({ ...record, ...namedItem(parts, record.item_id) }))),
  )
}

async function* snapshotFile(parts: ApiParts, portfolioId: string): AsyncGenerator<string> {
  const entries = await kept(listEntries(storeOf(parts), portfolioId))
  yield SNAPSHOT_HEADER
  yield writeSnapshotRows(entries.map(({ item_id, quantity }) => ({ ...namedItem(parts, item_id), quantity })))
}

interface ChosenAssets {
  entries: NewEntry[]
  unresolved: InventoryImport['unresolved']
}

/** The assets to import; what the inventory lacks or the catalog does not know is unresolved. */
function chooseAssets(
  { catalog }: ApiParts,
  inventory: LinkedInventory,
  assetIds: readonly string[] | undefined,
): ChosenAssets {
  const byId = new Map(inventory.map(asset => [asset.assetid, asset]))
  const chosen: ChosenAssets = { entries: [], unresolved: [] }
  for (const assetid of new Set(assetIds ?? byId.keys())) {
    const asset = byId.get(assetid)
    const item = asset && matchAsset(catalog, asset)
    if (!asset || !item) chosen.unresolved.push(asset?.marketHashName || assetid)
    else {
      chosen.entries.push({
        ...{ item_id: item.item_id, quantity: asset.quantity, source: 'gamestore', gamestore_assetid: assetid },
        ...{ float_value: asset.floatValue, paint_seed: asset.paintSeed, inspect_link: asset.inspectLink },
        ...{ name_tag: asset.nameTag, stickers: asset.stickers, charms: asset.charms },
      })
    }
  }
  return chosen
}
