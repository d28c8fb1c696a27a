/** Providers with few items, so that many refreshes a second change many prices. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { loadProviders } from '#infra/config/providers.ts'
import type { Listing, PublishedRound } from './market-load.ts'
import type { Stage } from './stage.ts'

/** Refreshes of listings, one after the other and again from the first. */
export interface RefreshPace {
  listings: readonly Listing[]
  everyMs: number
  /** Of the prices of a refresh those that move. */
  share: number
  /** Called when a refresh was sent, with its number. */
  onRefresh?(listing: Listing, refresh: number): void
}

export const smallKeys = (count: number): string[] =>
  Array.from({ length: count }, (_, each) => `small_${String(each + 1).padStart(2, '0')}`)

/** Writes the registry with the small providers in it; returns its path. */
export function writeProviders({ config }: Stage, keys: readonly string[]): string {
  const { all } = loadProviders()
  const [template] = all
  const small = keys.map((key, each) => ({ ...template, key, display_name: key, code: `SMALL${each}` }))
  const path = join(config.stateDir, 'providers.json')
  writeFileSync(path, JSON.stringify({ providers: [...all, ...small] }))
  return path
}

/** Does work while refreshes go on; counts those that were acknowledged when it ended, and those that were due by then. */
export async function whileRefreshing<T>(
  { market }: Stage,
  { listings, everyMs, share, onRefresh }: RefreshPace,
  work: () => Promise<T>,
): Promise<{ result: T; published: number; offered: number; refreshes: string[] }> {
  const sent: Promise<PublishedRound>[] = []
  let acknowledged = 0
  let isOver = false
  const startedAt = performance.now()
  const refreshing = (async () => {
    while (!isOver) {
      const early = startedAt + sent.length * everyMs - performance.now()
      if (early > 0) await pause(early)
      const listing = listings[sent.length % listings.length] as Listing
      const sending = market.publish([listing], share)
      const acknowledge = (): void => {
        acknowledged += 1
      }
      // What fails is thrown below.
      sending.then(acknowledge, () => undefined)
      onRefresh?.(listing, sent.length)
      sent.push(sending)
    }
  })()
  const end = async (): Promise<PublishedRound[]> => {
    isOver = true
    await refreshing
    return Promise.all(sent)
  }
  try {
    const result = await work()
    const [published, offered] = [acknowledged, (performance.now() - startedAt) / everyMs]
    return { result, published, offered, refreshes: (await end()).flatMap(({ refreshes }) => refreshes) }
  } finally {
    await end()
  }
}
