/**
 * What a portfolio holds: entries that were added or imported, and what the ledger adds up to.
 *
 * Writes portfolio_entries. Invariant: of the entries of an item at most one carries its ledger quantity, which
 * is the sum of the item's transactions as of the last of them; units that were added otherwise are kept apart and
 * are never touched by a transaction. An entry without any unit does not exist.
 */
import { HttpError } from '#infra/http/http-error.ts'
import { insertRows, type Query } from '#infra/postgres/pool.ts'
import { type PortfolioScope, type PortfolioStore, writePortfolio } from '../commands.ts'
import { type AssetDetails, ENTRY_COLUMNS, type EntryRecord, type EntrySource } from '../reader.ts'

/** Units to add. */
export interface NewEntry extends Partial<AssetDetails> {
  item_id: number
  quantity: number
  source: EntrySource
}

/** Adds units by hand, as an entry of their own. */
export function addEntry(store: PortfolioStore, scope: PortfolioScope, entry: NewEntry): Promise<EntryRecord> {
  return writePortfolio(store, scope, async query => {
    const [added] = await insertEntries(query, scope, [entry])
    return added as EntryRecord
  })
}

/** Removes an entry whole; the ledger stays as it is. */
export function removeEntry(store: PortfolioStore, scope: PortfolioScope, entryId: string): Promise<void> {
  return writePortfolio(store, scope, async query => {
    const rows = await query('DELETE FROM portfolio_entries WHERE id = $1 AND portfolio_id = $2 RETURNING id', [
      entryId,
      scope.portfolioId,
    ])
    if (rows.length === 0) {
      throw new HttpError(
        'PORTFOLIO_ENTRY_NOT_FOUND',
        'This portfolio has no entry with this id; it is not the item_id.',
      )
    }
  })
}

/** The outcome of an import of an inventory. */
export interface InventoryImport {
  imported: number
  /** Assets that the portfolio had under the same asset id. */
  skipped: number
  /** Assets that match no item, and asked ones that the inventory lacks. */
  unresolved: string[]
}

/** Adds assets of an inventory; those that the portfolio has under the same asset id are left as they are. */
export function importAssets(
  store: PortfolioStore,
  scope: PortfolioScope,
  assets: readonly NewEntry[],
  unresolved: InventoryImport['unresolved'],
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

/** Which items a write of the ledger has touched. */
interface LedgerTouch {
  itemIds: readonly number[]
  /** Those that gained units: an item that is not tracked yet becomes so. */
  grown: readonly number[]
  /** Of entries that come into being. */
  source: EntrySource
}

/** Sets the entries of items to what their transactions add up to; called inside a write of the ledger. */
export async function followLedger(
  query: Query,
  { portfolioId, now }: Pick<PortfolioScope, 'portfolioId' | 'now'>,
  { itemIds, grown, source }: LedgerTouch,
): Promise<void> {
  const nets = await query<{ item_id: number; units: string }>(
    `SELECT item_id, sum(CASE type WHEN 'buy' THEN quantity ELSE -quantity END)::bigint AS units
    FROM portfolio_transactions WHERE portfolio_id = $1 AND item_id = ANY($2::int[]) GROUP BY item_id`,
    [portfolioId, itemIds],
  )
  const heldNets = nets.filter(({ units }) => units !== '0')
  const isHeld = new Set(heldNets.map(({ item_id }) => item_id))
  const gone = itemIds.filter(id => !isHeld.has(id))
  if (gone.length > 0) {
    await query(
      `DELETE FROM portfolio_entries
      WHERE portfolio_id = $1 AND item_id = ANY($2::int[]) AND ledger_quantity > 0 AND added_quantity = 0`,
      [portfolioId, gone],
    )
    await query(
      'UPDATE portfolio_entries SET ledger_quantity = 0 WHERE portfolio_id = $1 AND item_id = ANY($2::int[]) AND ledger_quantity > 0',
      [portfolioId, gone],
    )
  }
  if (heldNets.length === 0) return
  const values = [portfolioId, heldNets.map(({ item_id }) => item_id), heldNets.map(({ units }) => units)]
  const tracked = await query<{ item_id: number }>(
    `UPDATE portfolio_entries e SET ledger_quantity = n.units FROM unnest($2::int[], $3::bigint[]) AS n (item_id, units)
    WHERE e.portfolio_id = $1 AND e.item_id = n.item_id AND e.ledger_quantity > 0 RETURNING e.item_id`,
    values,
  )
  const isTracked = new Set(tracked.map(({ item_id }) => item_id))
  const isGrown = new Set(grown)
  const untracked = heldNets.filter(({ item_id }) => isGrown.has(item_id) && !isTracked.has(item_id))
  if (untracked.length > 0) await track(query, portfolioId, new Date(now), source, untracked)
}

/** Gives the ledger's units of items to their oldest entry that is no asset, or to a new one. */
async function track(
  query: Query,
  portfolioId: string,
  now: Date,
  source: EntrySource,
  nets: readonly { item_id: number; units: string }[],
): Promise<void> {
  await query(
    `WITH n AS (SELECT * FROM unnest($2::int[], $3::bigint[]) AS n (item_id, units)),
    oldest AS (
      SELECT DISTINCT ON (e.item_id) e.id, n.units FROM portfolio_entries e JOIN n ON n.item_id = e.item_id
      WHERE e.portfolio_id = $1 AND e.gamestore_assetid IS NULL ORDER BY e.item_id, e.sequence),
    tracked AS (
      UPDATE portfolio_entries e SET ledger_quantity = oldest.units FROM oldest WHERE e.id = oldest.id RETURNING e.item_id)
    INSERT INTO portfolio_entries (portfolio_id, item_id, added_quantity, ledger_quantity, source, created_at)
    SELECT $1, n.item_id, 0, n.units, $4, $5 FROM n WHERE n.item_id NOT IN (SELECT item_id FROM tracked)`,
    [portfolioId, nets.map(({ item_id }) => item_id), nets.map(({ units }) => units), source, now],
  )
}
