/**
 * The rules of a ledger: what is held on a day, and which changes would sell what was not held.
 *
 * A day is the unit: all buys of a day count before its sells, whatever their order of entry. An item's holdings at the
 * end of every day are at least zero; every write of a ledger is checked here first.
 */

export type Direction = 'buy' | 'sell'

interface Movement {
  type: Direction
  quantity: number
  /** YYYY-MM-DD. */
  date: string
}

/** A day on which more would have been sold than was held. */
export interface Shortfall {
  date: string
  /** Units that are missing at the end of that day. */
  missing: number
}

/** Day → units gained (or lost) on it, of one item. */
export type DayNets = Map<string, number>

/** The units by which a movement changes holdings. */
export const signedQuantity = ({ type, quantity }: Pick<Movement, 'type' | 'quantity'>): number =>
  type === 'buy' ? quantity : -quantity

export function applyMovement(nets: DayNets, movement: Movement, times: 1 | -1 = 1): void {
  nets.set(movement.date, (nets.get(movement.date) ?? 0) + times * signedQuantity(movement))
}

/** The first day that ends below zero; undefined when the ledger of the item holds. */
export function firstShortfall(nets: DayNets): Shortfall | undefined {
  let units = 0
  for (const date of [...nets.keys()].sort()) {
    units += nets.get(date) ?? 0
    if (units < 0) return { date, missing: -units }
  }
  return undefined
}

interface RowMovement extends Movement {
  row: number
}

/**
 * The row of an imported file that causes a shortfall, given the days that are stored already; undefined when there
 * is none. It is the sell with which a day's stock runs out, taking the day's sells in the order of the file; when
 * that day's own sells stood before, the last earlier sell of the file.
 */
export function rowAtFault(stored: DayNets, rows: readonly RowMovement[]): (Shortfall & { row: number }) | undefined {
  const nets: DayNets = new Map(stored)
  for (const row of rows) applyMovement(nets, row)
  const shortfall = firstShortfall(nets)
  if (!shortfall) return undefined
  const { date } = shortfall
  let left = 0
  for (const [day, net] of stored) if (day <= date) left += net
  const earlier = rows.filter(row => row.date <= date)
  for (const row of earlier) if (row.type === 'buy' || row.date < date) left += signedQuantity(row)
  for (const row of earlier) {
    if (row.type === 'buy' || row.date < date) continue
    left -= row.quantity
    if (left < 0) return { ...shortfall, row: row.row }
  }
  let last: RowMovement | undefined
  for (const row of earlier) if (row.type === 'sell' && (!last || row.date >= last.date)) last = row
  if (!last) throw new Error('the ledger was short before the file came')
  return { ...shortfall, row: last.row }
}
