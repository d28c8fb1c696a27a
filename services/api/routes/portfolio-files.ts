/** Fills a portfolio from files and inventories, and exports it. Rules: DECISIONS.md, "Portfolios and inventories". */
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { openFormFiles } from '#infra/http/form-file.ts'
import { HttpError } from '#infra/http/http-error.ts'
import { stream } from '#infra/http/reply.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { json } from '#schemas/api/operation.ts'
import { csvMembers, csvRefusal, exportQuery, importBody, importReply, portfolioFile } from '#schemas/api/portfolios.ts'
import { matchAsset, type PlatformAsset } from '#services/inventory/reader.ts'
import { answeredBefore } from '#services/portfolios/commands.ts'
import { importCsv } from '#services/portfolios/csv/commands.ts'
import {
  type CsvScope,
  isLedgerExport,
  LEDGER_HEADER,
  readCsv,
  SNAPSHOT_HEADER,
  writeLedgerRows,
  writeSnapshotRows,
} from '#services/portfolios/csv/reader.ts'
import { type InventoryImport, importAssets, type NewEntry } from '#services/portfolios/entries/commands.ts'
import { readLedgerBytes, readLedgerPosition } from '#services/portfolios/ledger/reader.ts'
import { findPortfolio } from '#services/portfolios/reader.ts'
import type { ApiContext } from '../context.ts'
import { idempotencyKeyOf, MISSING, namedItem, OWN, writeScope } from '../portfolio-access.ts'
import { EXPENSIVE, EXPENSIVE_IF_LARGE } from '../work-limits.ts'
import { readLinkedInventory } from './inventory.ts'
import { entrySlices, latestDay, ledgerSlices } from './portfolios.ts'

const FILE = 'file'
const EXPORT_MAX_BYTES = 64 * 2 ** 20
const UPLOADS = {
  field: FILE,
  maxBytes: 5 * 2 ** 20,
  large: { maxBytes: EXPORT_MAX_BYTES, isAllowed: isLedgerExport },
  /** Those that have come whole, and wait for one of the few that are stored at a time. */
  atOnce: 8,
  /** At 16 kB a second a file of 5 MB would take longer than a request may. */
  leastBytes: 32 * 1024,
  paceMs: 2_000,
  receivingBytes: 64 * 2 ** 20,
}
/** Of a row as it comes in practice. */
const USUAL_ROW_BYTES = 64
/** Of a part: a row takes 5,000 bytes at most, since a note has a thousand characters of four bytes. */
const PART_ROWS = 12_500
/** Of a row beside what it holds: date, type, separators, quotes and apostrophes. */
const ROW_BYTES = 40
const CSV =
  'A ledger has the columns date, type, market_hash_name or item_id, phase, quantity, price, currency, fee_amount, fee_percentage, marketplace, note; a snapshot market_hash_name or item_id, phase, quantity. The header decides which it is. Amounts are hundredths as whole numbers (1250) or units with a decimal point (12.50), one of the two in a file. UTF-8, columns separated by commas.'

export const portfolioFileRoutes = (api: ApiContext): Route[] => [
  importCsvFile(api),
  exportPortfolio(api),
  importInventory(api),
]

function importCsvFile(api: ApiContext): Route {
  const { store, longWork, budget } = api
  const withFile = openFormFiles(UPLOADS)
  return defineRoute({
    ...OWN,
    id: 'importPortfolioCsv',
    method: 'post',
    path: '/portfolio/:id/import/csv',
    isCreate: true,
    summary: 'Import a CSV file, whole or not at all',
    description: `${CSV} A row that cannot be taken is reported by its number, the header being row 1, and its column, and nothing is stored. A file that begins as the export of a ledger does may have 64 MB. ${EXPENSIVE_IF_LARGE}`,
    upload: { field: FILE, description: 'The file: 5 MB at most, an exported ledger 64 MB.' },
    violations: { name: 'CsvValidationErrorReply', schema: csvRefusal },
    reply: json('CsvReply', csvMembers, 'What was stored.'),
    errors: [...MISSING, 'PORTFOLIO_ITEM_LIMIT_REACHED'],
    async handle({ params: { id }, credential, request, response }) {
      await findPortfolio(store, credential.accountId, id)
      const { accountId } = credential
      return withFile({ request, response, accountId }, async file => {
        await budget.charge(credential, file.length / USUAL_ROW_BYTES)
        const hasKey = request.headers['idempotency-key'] !== undefined
        const digest = hasKey ? Buffer.from(await crypto.subtle.digest('SHA-256', file as Buffer<ArrayBuffer>)) : ''
        const scope = writeScope(api, credential, id, idempotencyKeyOf(request, 'importCsv', id, digest))
        return longWork.add(accountId, async () =>
          importCsv({ ...store, database: longWork.database }, scope, await readCsv(file, csvScope(api))),
        )
      })
    },
  })
}

const exportPortfolio = (api: ApiContext): Route =>
  defineRoute({
    ...OWN,
    id: 'exportPortfolio',
    method: 'get',
    path: '/portfolio/:id/export',
    summary: 'Download the ledger or the holdings as CSV',
    description:
      'The file imports back to the same portfolio. A cell that a spreadsheet would compute is led by an apostrophe, which an import takes away. ' +
      'A ledger of more than 64 MB comes in parts, of which `part` names one; imported in their order they are the ledger. ' +
      EXPENSIVE,
    query: exportQuery,
    reply: {
      status: 200,
      type: 'text/csv',
      name: 'PortfolioFile',
      schema: portfolioFile,
      description: 'RFC 4180, UTF-8.',
      headers: { 'Content-Disposition': 'A name for the file.', 'X-Export-Parts': 'How many parts the export has.' },
      example: portfolioFile.meta()?.example,
    },
    errors: MISSING,
    admit: ({ credential }) => api.budget.charge(credential),
    async handle({ params: { id }, query: { type, part, bom }, credential, response }) {
      const portfolio = await findPortfolio(api.store, credential.accountId, id)
      const parts = type === 'items' ? 1 : await countParts(api, portfolio)
      if (part === undefined ? parts > 1 : part > parts) throw partFault(parts, part)
      const suffix = parts > 1 ? `-${part}-of-${parts}` : ''
      const mark = bom ? '\uFEFF' : ''
      const file =
        type === 'items'
          ? snapshotFile(api, id, mark)
          : ledgerFile(api, id, { part: parts > 1 ? part : undefined, mark })
      return stream(response, file, {
        type: 'text/csv; charset=utf-8',
        headers: [
          ...['Content-Disposition', `attachment; filename="portfolio-${id}-${type}${suffix}.csv"`],
          ...['X-Export-Parts', String(parts)],
        ],
      })
    },
  })

const importInventory = (api: ApiContext): Route =>
  defineRoute({
    ...OWN,
    id: 'importPortfolioInventory',
    method: 'post',
    path: '/portfolio/:id/import',
    isCreate: true,
    isBodyOptional: true,
    summary: 'Import the linked inventory',
    description:
      'All of it, or the assets that `asset_ids` lists. Assets that the portfolio has already are skipped; those that match no catalog item are listed in `unresolved`, by name, or by asset id where they have none.',
    body: importBody,
    reply: json('ImportReply', importReply, 'What was done.'),
    errors: [
      ...MISSING,
      'PLATFORM_ACCOUNT_NOT_LINKED',
      'FORBIDDEN',
      'NOT_FOUND',
      'PORTFOLIO_ITEM_LIMIT_REACHED',
      'UPSTREAM_ERROR',
    ],
    async handle({ params: { id }, body: { asset_ids }, credential, request }) {
      const { store, catalog } = api
      const { accountId } = credential
      await findPortfolio(store, accountId, id)
      const idempotencyKey = idempotencyKeyOf(request, 'importInventory', id, JSON.stringify(asset_ids ?? null))
      const scope = writeScope(api, credential, id, idempotencyKey)
      const before = await answeredBefore<InventoryImport>(store.database.rows, scope)
      if (before) return before
      const inventory = await readLinkedInventory(api, accountId)
      const { entries, unresolved } = chooseAssets(catalog, inventory, asset_ids)
      return importAssets(store, scope, entries, unresolved)
    },
  })

function csvScope({ catalog, fx, now }: ApiContext): CsvScope {
  return {
    idOf: (name, phase) => catalog.idOf(name, phase),
    nameOf: id => catalog.byId(id)?.market_hash_name,
    isCurrency: fx.isCurrency,
    latestDay: latestDay(now()),
  }
}

/** In how many parts a ledger is exported: one where it is as large as an import takes. */
async function countParts(
  { reads, catalog }: ApiContext,
  { id, transaction_count }: { id: string; transaction_count: number },
): Promise<number> {
  if (transaction_count <= PART_ROWS) return 1
  let sum = LEDGER_HEADER.length
  for (const { item_id, rows, bytes } of await readLedgerBytes(reads, id)) {
    const { market_hash_name, phase } = namedItem(catalog, item_id)
    sum += bytes + rows * (ROW_BYTES + Buffer.byteLength(market_hash_name + (phase ?? '')))
  }
  return sum <= EXPORT_MAX_BYTES ? 1 : Math.ceil(transaction_count / PART_ROWS)
}

/** Without a part a request would get less than it asks for. */
function partFault(parts: number, part: number | undefined): HttpError {
  const msg = parts === 1 ? 'The export has one part' : `The export comes in ${parts} parts; name one of 1 to ${parts}`
  const type = part === undefined ? 'missing' : 'less_than_equal'
  return new HttpError('VALIDATION_ERROR', [
    { type, loc: ['query', 'part'], msg, input: part ?? null, ctx: { le: parts } },
  ])
}

/** A ledger, or the part of it that has a number. */
async function* ledgerFile(
  { reads, catalog }: ApiContext,
  portfolioId: string,
  { part, mark }: { part: number | undefined; mark: string },
): AsyncGenerator<string> {
  const before = part === undefined ? 0 : (part - 1) * PART_ROWS
  const after = before === 0 ? undefined : await readLedgerPosition(reads, portfolioId, before)
  const scope: Parameters<typeof ledgerSlices>[1] =
    part === undefined ? { portfolioId, order: 'oldest' } : { portfolioId, order: 'buys', after, count: PART_ROWS }
  yield mark + LEDGER_HEADER
  for await (const records of ledgerSlices(reads, scope)) {
    yield writeLedgerRows(records.map(record => ({ ...record, ...namedItem(catalog, record.item_id) })))
  }
}

async function* snapshotFile(
  { reads, catalog }: ApiContext,
  portfolioId: string,
  mark: string,
): AsyncGenerator<string> {
  yield mark + SNAPSHOT_HEADER
  for await (const entries of entrySlices(reads, portfolioId)) {
    yield writeSnapshotRows(entries.map(({ item_id, quantity }) => ({ ...namedItem(catalog, item_id), quantity })))
  }
}

/** The assets to import; what the inventory lacks or the catalog does not know is unresolved. */
function chooseAssets(
  catalog: CatalogReader,
  inventory: readonly PlatformAsset[],
  assetIds: readonly string[] | undefined,
) {
  const byId = new Map(inventory.map(asset => [asset.assetid, asset]))
  const entries: NewEntry[] = []
  const unresolved: string[] = []
  for (const assetid of new Set(assetIds ?? byId.keys())) {
    const asset = byId.get(assetid)
    const item = asset && matchAsset(catalog, asset)
    if (!asset || !item) {
      unresolved.push(asset?.market_hash_name || assetid)
      continue
    }
    entries.push({ ...asset, item_id: item.item_id, source: 'gamestore', gamestore_assetid: assetid })
  }
  return { entries, unresolved }
}
