/**
 * Which sales of a list are new, since a provider lists each at many polls.
 *
 * Pure. Keeps eight bytes of each sale: a hash of what identifies it in the tables. They are stored with the position of its feed,
 * in one transaction with the last of its new sales, so after a kill the next list begins where the log ends. A list of which nothing
 * is kept leaves them as they were; of one that is longer than SALES_MAX the newest are kept, and the others are published again. So is
 * a sale of an item that the catalog lacks: the views take it once the catalog has its item.
 */
import { hash } from 'node:crypto'
import type { SaleObserved } from '#schemas/events/sale-observed.ts'
import type { ResolveItem } from '#schemas/values/catalog-item.ts'

export type SaleList = ReturnType<typeof openSaleList>

/** Sales that are known again. */
export const SALES_MAX = 5_000
/** Eight bytes. */
const HEX_DIGITS = 16
const HASH_FORM = new RegExp(`.{${HEX_DIGITS}}`, 'g')

export function openSaleList(before: Buffer | null, resolve: ResolveItem) {
  const known = new Set(before?.toString('hex').match(HASH_FORM))
  /** Hash → time of its sale. */
  const own = new Map<string, number>()
  return {
    /** Adds a sale; whether it is new. */
    add(sale: SaleObserved): boolean {
      const key = hashOf(sale)
      const isNew = !known.has(key) && !own.has(key)
      if (resolve(sale.market_hash_name, sale.phase) !== undefined) own.set(key, sale.sold_at)
      return isNew
    },
    /** Compared with the next list; null before the first sale. */
    hashes(): Buffer | null {
      if (own.size === 0) return before
      const newest = [...own].toSorted(([, a], [, b]) => b - a).slice(0, SALES_MAX)
      return Buffer.from(newest.map(([key]) => key).join(''), 'hex')
    },
  }
}

const hashOf = ({ market_hash_name: name, phase, sold_at: soldAt, sale_id: id }: SaleObserved): string =>
  hash('sha256', JSON.stringify([name, phase, soldAt, id])).slice(0, HEX_DIGITS)
