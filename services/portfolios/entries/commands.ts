/**
 * The holdings of a portfolio: entries that were added or imported, and what the ledger adds up to.
 *
 * Writes portfolio_entries. Invariant: of the entries of an item at most one carries its ledger quantity, which
 * is the sum of the item's transactions as of the last of them; units that were added otherwise are kept apart and
 * are never touched by a transaction. An entry without any unit does not exist.
 */
import type { z } from 'zod'
import { HttpError } from '#infra/http/http-error.ts'
import { insertRows, type Query } from '#infra/postgres/pool.ts'
import type { importReply } from '#schemas/api/portfolios.ts'
import { type PortfolioScope, type PortfolioStore, writePortfolio } from '../commands.ts'
import { ENTRY_COLUMNS, type EntryRecord } from '../reader.ts'

export type NewEntry = Pick<EntryRecord, 'item_id' | 'quantity' | 'source'> & Partial<EntryRecord>

export function addEntry(store: PortfolioStore, scope: PortfolioScope, entry: NewEntry): Promise<EntryRecord> {
  return writePortfolio(store, scope, async query => {
    const [added] = await insertEntries(query, scope, [entry])
    return added as EntryRecord
  })
}

export function removeEntry(store: PortfolioStore, scope: PortfolioScope, entryId: string): Promise<void> {
  return writePortfolio(store, scope, async query => {
    const rows = await query('DELETE FROM portfolio_entries WHERE id = $1 AND portfolio_id = $2 RETURNING id', [
      entryId,
      scope.portfolioId,
    ])
    if (rows.length > 0) return
    const detail = 'This portfolio has no entry with this id; it is not the item_id.'
    throw new HttpError('PORTFOLIO_ENTRY_NOT_FOUND', detail)
  })
}

export type InventoryImport = z.infer<typeof importReply>

/**
 * Adds assets of an inventory; those that the portfolio has under the same asset id are left as they are, and counted as skipped.
 * `unresolved` are assets that match no item, and requested ones that the inventory lacks.
 */
export function importAssets(
  store: PortfolioStore,
  scope: PortfolioScope,
  assets: readonly NewEntry[],
  unresolved: string[],
): Promise<InventoryImport> {
  return writePortfolio(store, scope, async query => {
    const stored = await insertEntries(query, scope, assets)
    return { imported: stored.length, skipped: assets.length - stored.length, unresolved }
  })
}

/** Writes entries and returns those that were new; called inside a write. */
export async function insertEntries(
  query: Query,
  { portfolioId, now }: Pick<PortfolioScope, 'portfolioId' | 'now'>,
  entries: readonly NewEntry[],
): Promise<EntryRecord[]> {
  return insertRows(
    query,
    'portfolio_entries',
    `portfolio_id, created_at, item_id, added_quantity, source, gamestore_assetid, float_value, paint_seed, inspect_link, name_tag,
      stickers, charms`,
    entries.map(entry => ({
      ...entry,
      portfolio_id: portfolioId,
      created_at: new Date(now),
      added_quantity: entry.quantity,
    })),
    `ON CONFLICT (portfolio_id, gamestore_assetid) WHERE gamestore_assetid IS NOT NULL DO NOTHING
    RETURNING ${ENTRY_COLUMNS}`,
  )
}

/** An item's units go to the entry that has those of its ledger, else to its oldest entry that is no asset, else to a new one. */
const FOLLOW = `WITH net AS (
    SELECT i AS item_id, coalesce(sum(CASE type WHEN 'buy' THEN quantity ELSE -quantity END), 0)::bigint AS units
    FROM unnest($2::int[]) AS i LEFT JOIN portfolio_transactions t ON t.portfolio_id = $1 AND t.item_id = i GROUP BY i
  ), gone AS (
    DELETE FROM portfolio_entries e USING net
    WHERE e.portfolio_id = $1 AND e.item_id = net.item_id AND units = 0 AND ledger_quantity > 0 AND added_quantity = 0
  ), followed AS (
    UPDATE portfolio_entries e SET ledger_quantity = units FROM net
    WHERE e.portfolio_id = $1 AND e.item_id = net.item_id AND ledger_quantity > 0 AND (units > 0 OR added_quantity > 0)
    RETURNING e.item_id
  ), untracked AS (
    SELECT * FROM net WHERE units > 0 AND item_id = ANY ($3::int[]) AND item_id NOT IN (SELECT item_id FROM followed)
  ), oldest AS (
    SELECT DISTINCT ON (e.item_id) e.id, units FROM portfolio_entries e JOIN untracked u ON u.item_id = e.item_id
    WHERE e.portfolio_id = $1 AND e.gamestore_assetid IS NULL ORDER BY e.item_id, e.sequence
  ), tracked AS (
    UPDATE portfolio_entries e SET ledger_quantity = units FROM oldest WHERE e.id = oldest.id RETURNING e.item_id
  )
  INSERT INTO portfolio_entries (portfolio_id, item_id, added_quantity, ledger_quantity, source, created_at)
  SELECT $1, item_id, 0, units, $4, $5 FROM untracked WHERE item_id NOT IN (SELECT item_id FROM tracked)`

/**
 * Sets the entries of items to what their transactions add up to; called inside a write of the ledger. Those of `grown` have gained
 * units: one that is not tracked yet becomes so, as an entry of `source`.
 */
export async function followLedger(
  query: Query,
  { portfolioId, now }: Pick<PortfolioScope, 'portfolioId' | 'now'>,
  { itemIds, grown, source }: { itemIds: readonly number[]; grown: readonly number[]; source: EntryRecord['source'] },
): Promise<void> {
  await query(FOLLOW, [portfolioId, itemIds, grown, source, new Date(now)])
}
