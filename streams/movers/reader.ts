import type { ViewStore } from '#infra/redis/redis.ts'
import { cached } from '#infra/runtime/async/coalesce.ts'
import type { Instant } from '#schemas/values/instant.ts'
import { openComputedReader } from '#streams/runner/computed-versions.ts'
import { decodeMovers, MOVERS, type Mover, type MoversFacts, type MoversWindow, WINDOW_NAMES } from './table.ts'

export type { Mover } from './table.ts'

interface Movers extends MoversFacts {
  asOf: Instant
  /** Those of a window: the largest change in percent first, up or down; ties by item id. */
  rows(window: MoversWindow): Promise<readonly Mover[]>
}

/** How old a snapshot may be when it is answered from (DECISIONS.md, "Movers"). */
export const MOVERS_AGE_LIMIT_MS = 30_000

/** Opens a reader of the newest movers; the rows of a window are read once, when they are asked for. */
export const openMoversReader = (store: ViewStore): (() => Promise<Movers | undefined>) =>
  openComputedReader<MoversFacts, Movers>(store, MOVERS, async ({ as_of, facts }, value) => {
    const read = async (window: MoversWindow) => decodeMovers(await value(window))
    const rows = new Map(WINDOW_NAMES.map(window => [window, cached(() => read(window), Number.POSITIVE_INFINITY)]))
    return { ...facts, asOf: as_of, rows: async window => (await rows.get(window)?.get()) ?? [] }
  })
