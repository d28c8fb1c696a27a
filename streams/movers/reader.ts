import type { ViewStore } from '#infra/redis/redis.ts'
import { decodeMovers, type Mover, type MoversHead, type MoversWindow, moversHeadKey, moversRowsKey } from './table.ts'

export type { Mover } from './table.ts'

/** The movers of a window. */
export interface Movers {
  head: MoversHead
  /** The largest change in percent first, up or down; ties by item id. */
  rows: readonly Mover[]
}

/** Reads the movers. */
interface MoversReader {
  /** The newest movers of a window; undefined until there are any. Their age is for the caller to judge. */
  read(window: MoversWindow): Promise<Movers | undefined>
}

/** How old a snapshot may be when it is answered from (DECISIONS.md, "Movers"). */
export const MOVERS_AGE_LIMIT_MS = 30_000

/** How long a head counts as the newest. */
const HEAD_AGE_MS = 1_000
/** A version stays for a minute after it was replaced, so rows that are gone were named by a head that is old. */
const TRIES = 2

/**
 * Opens a reader that keeps what it has read: a head is read once a second, the rows of a version once, while there are requests.
 * Requests at one time share a read.
 */
export function openMoversReader(store: ViewStore): MoversReader {
  const kept = new Map<MoversWindow, { checkedAt: number; movers: Promise<Movers | undefined> }>()
  return {
    read(window) {
      const now = performance.now()
      const known = kept.get(window)
      if (known && now - known.checkedAt < HEAD_AGE_MS) return known.movers
      const before = known?.movers.catch(() => undefined) ?? Promise.resolve(undefined)
      const movers = before.then(before => readMovers(store, window, before))
      kept.set(window, { checkedAt: now, movers })
      // What failed is read again by the next request.
      movers.catch(() => kept.delete(window))
      return movers
    },
  }
}

/** Reads the newest movers of a window; those that are known are given back while they are the newest. */
async function readMovers(
  { redis, prefix }: ViewStore,
  window: MoversWindow,
  known?: Movers,
): Promise<Movers | undefined> {
  for (let tries = 0; tries < TRIES; tries++) {
    const text = await redis.get(moversHeadKey(prefix))
    if (text === null) return undefined
    const head = JSON.parse(text) as MoversHead
    if (head.version === known?.head.version) return known
    const bytes = await redis.getBuffer(moversRowsKey(head.version, window, prefix))
    if (bytes !== null) return { head, rows: decodeMovers(bytes, head.windows[window]) }
  }
  throw new Error('the rows of the movers are gone')
}
