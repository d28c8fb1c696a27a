/**
 * Composite best asks of past moments, and hourly closes, of every item.
 *
 * Invariant: a composite of a past moment is the lowest ask that was listed then, over all providers. A provider whose ask
 * has not changed since is known from the board; one whose ask has, from the first change after the moment, which holds what
 * it found. So a query reads only what came after.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { Instant } from '#schemas/values/instant.ts'
import type { MicroUsd } from '#schemas/values/money.ts'
import { HOURS_OF_CLOSES, readHourlyCloses } from '#streams/candles/reader.ts'
import { readAsksBeforeChanges } from '#streams/history/reader.ts'
import type { Board } from './board.ts'

/** Item → a figure. */
export type ByItem<T> = ReadonlyMap<number, T>

const HOUR_MS = 3_600_000

/** The start of the hour of a moment. */
export const hourOf = (moment: Instant): Instant => Math.floor(moment / HOUR_MS) * HOUR_MS

/** The composite best ask of a past moment; items that were not listed then are left out. */
export async function readAsksAt(
  clickhouse: ClickhouseReader,
  board: Board,
  moment: Instant,
): Promise<Map<number, MicroUsd>> {
  const asks = await readAsksBeforeChanges(clickhouse, moment)
  for (const [itemId, unchanged] of lowestSince(board, moment)) {
    asks.set(itemId, Math.min(asks.get(itemId) ?? Number.POSITIVE_INFINITY, unchanged))
  }
  return asks
}

/** The lowest ask of each item among those that have not changed since a moment. */
function* lowestSince(board: Board, moment: Instant): Generator<[itemId: number, micro: MicroUsd]> {
  const { providers, microUsd, seenAt } = board.sides.ask
  for (let slot = 0; slot < board.size; slot++) {
    let lowest = Number.POSITIVE_INFINITY
    for (let cell = slot * providers.length; cell < (slot + 1) * providers.length; cell++) {
      const micro = microUsd[cell] as number
      if (micro !== 0 && micro < lowest && (seenAt[cell] as number) <= moment) lowest = micro
    }
    if (lowest !== Number.POSITIVE_INFINITY) yield [board.itemId(slot), lowest]
  }
}

/**
 * The composite closes of the last 24 completed hours in which an ask of the item changed, oldest first; formulas as
 * those of candles (streams/candles/compose.ts).
 */
export async function readCompositeCloses(
  clickhouse: ClickhouseReader,
  board: Board,
  end: Instant,
): Promise<Map<number, number[]>> {
  const start = end - HOURS_OF_CLOSES * HOUR_MS
  const rows = await readHourlyCloses(clickhouse, start)
  // An ask that changed just at the start has a part of its own.
  const unchanged = new Map(lowestSince(board, start - 1))
  const closes = new Map<number, number[]>()
  for (const { item_id, hours } of rows) {
    const own = unchanged.get(item_id) ?? Number.POSITIVE_INFINITY
    const values = hours.sort(([a], [b]) => a - b).map(([, listed, withdrawn]) => lowestOf(listed, own, withdrawn))
    closes.set(item_id, values)
  }
  return closes
}

/** The lower listed ask; where none is listed, the one that was withdrawn last. */
function lowestOf(listed: MicroUsd, unchanged: MicroUsd, withdrawn: MicroUsd): MicroUsd {
  const lowest = listed === 0 ? unchanged : Math.min(listed, unchanged)
  return Number.isFinite(lowest) ? lowest : withdrawn
}
