/**
 * The market summary as it is sent: the rows' texts made once, so that reads have nothing to make.
 *
 * Yields to the event loop in between: 40,000 rows take some hundred milliseconds, and other roles
 * share the process. Invariant: rows are in the order of their ranks; `offsets` holds where each item's row ends.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { promisify } from 'node:util'
import { constants, crc32, deflateRaw } from 'node:zlib'
import type { Instant } from '#schemas/values/instant.ts'
import { byRank, indexBy, type SummarisedItem, shownSummary } from '#schemas/views/item-summary.ts'
import type { SummaryHead } from '#schemas/views/market-keys.ts'

/** A summary in the form of its view. */
export interface SummaryBody {
  asOf: Instant
  rows: number
  /** The rows, joined by commas, as raw deflate that ends in a full flush. */
  deflated: Buffer
  /** Of the text. */
  bytes: number
  crc: number
  /** Item id and end of its row in the text, alternating. */
  offsets: Buffer
  indexes: SummaryHead['indexes']
}

const ROWS_PER_TURN = 2_000
const LEVEL = 4

const deflate = promisify(deflateRaw) as (text: Buffer, options: object) => Promise<Buffer>

/** Makes the body of items at a moment. */
export async function summaryBody(items: readonly SummarisedItem[], asOf: Instant): Promise<SummaryBody> {
  const ranked = byRank(items)
  const parts: Buffer[] = []
  const offsets = new Uint32Array(ranked.length * 2)
  let bytes = 0
  for (let from = 0; from < ranked.length; from += ROWS_PER_TURN) {
    for (const [i, one] of ranked.slice(from, from + ROWS_PER_TURN).entries()) {
      const rank = from + i + 1
      const { item_id, market_hash_name, phase } = one.item
      const summary = shownSummary(one.figures, { supply: one.supply, rank, asOf })
      const text = JSON.stringify({ item_id, market_hash_name, phase, rank, summary })
      const row = Buffer.from(rank === 1 ? text : `,${text}`)
      parts.push(row)
      bytes += row.length
      offsets.set([item_id, bytes], (rank - 1) * 2)
    }
    await nextTurn()
  }
  const text = Buffer.concat(parts, bytes)
  const deflated = await deflate(text, { level: LEVEL, finishFlush: constants.Z_FULL_FLUSH })
  return {
    ...{ asOf, rows: ranked.length, deflated, bytes, crc: crc32(text) },
    offsets: Buffer.from(offsets.buffer),
    indexes: { item_type: indexBy('item_type', items), weapon_type: indexBy('weapon_type', items) },
  }
}
