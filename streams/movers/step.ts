/** Which items moved in a window, and by how much. Rules: DECISIONS.md, "Movers". */
import { HOUR_MS, type Instant } from '#schemas/values/instant.ts'
import type { MicroUsd } from '#schemas/values/money.ts'
import type { ListedAsk } from '#streams/candles/reader.ts'
import { MOVERS_WINDOWS, type Mover, type MoversWindow } from './table.ts'

interface WindowFigures {
  /** The composite ask of each item at the window's start; items that were not listed then are left out. */
  before: ReadonlyMap<number, MicroUsd>
  units(itemId: number): number
}

/** Refreshes come minutes after the moment that they are of, so units of the last hour are summed each time. */
const UNSETTLED_MS = HOUR_MS

/** Where a window begins at a moment, and up to where its units are summed once for all moments with the same start. */
export function boundsOf(window: MoversWindow, asOf: Instant): { since: Instant; settled: Instant } {
  const { ms, bucketMs } = MOVERS_WINDOWS[window]
  const bucketOf = (moment: Instant): Instant => Math.floor(moment / bucketMs) * bucketMs
  return { since: bucketOf(asOf - ms), settled: bucketOf(asOf - UNSETTLED_MS) }
}

/** The change as a share of the earlier price. Equal shares are equal numbers, since a division is rounded once. */
const shareOf = ({ ask, before }: Pick<Mover, 'ask' | 'before'>): number => (ask - before) / before

/** Orders movers: the larger change in percent first, up or down; ties by item id. */
const byChange = (one: Mover, other: Mover): number =>
  Math.abs(shareOf(other)) - Math.abs(shareOf(one)) || one.itemId - other.itemId

export function findMovers(asks: readonly ListedAsk[], { before, units }: WindowFigures): Mover[] {
  const movers = asks.flatMap(({ item_id: itemId, lowest: ask, providers }): Mover[] => {
    const earlier = before.get(itemId)
    if (ask === 0 || earlier === undefined || earlier === ask) return []
    return [{ itemId, ask, before: earlier, providers, units: units(itemId) }]
  })
  return movers.sort(byChange)
}
