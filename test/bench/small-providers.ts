/**
 * Providers with few items, so that many refreshes a second change many prices: the registry that lists them, and changes
 * at a steady rate.
 *
 * Writes market.quotes, and a providers file in the stage's state folder. Invariant: work beside changes counts only when at
 * least 98 % of the offered rate was acknowledged meanwhile, and the live view has kept up with it.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { loadProviders } from '#infra/config/providers.ts'
import type { Listing } from './market-load.ts'
import { requireOffered } from './requirements.ts'
import type { Stage } from './stage.ts'

/** Changes a second, and how many of them are of one refresh. */
export interface ChangeRate {
  perSecond: number
  listings: readonly Listing[]
}

/** What the live view may be behind when the work has ended. */
const KEEPS_UP_LIMIT_MS = 5_000

/** Keys of so many small providers. */
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

/** Does work while every price of the listings changes again and again; fails where the rate is not kept. */
export async function whileChanging<T>(
  stage: Stage,
  { perSecond, listings }: ChangeRate,
  work: () => Promise<T>,
): Promise<T> {
  const sent: Promise<unknown>[] = []
  const refreshes: string[] = []
  let acknowledged = 0
  let failure: unknown
  let isOver = false
  const startedAt = performance.now()
  const changing = (async () => {
    for (let dueMs = 0, refresh = 0; !isOver; refresh++) {
      const early = startedAt + dueMs - performance.now()
      if (early > 0) await pause(early)
      const listing = listings[refresh % listings.length] as Listing
      dueMs += (listing.names.length * 1_000) / perSecond
      const sending = stage.market.publish([listing], 1).then(round => {
        acknowledged += round.moved
        refreshes.push(...round.refreshes)
      })
      const noteFailure = (error: unknown): void => {
        failure ??= error
      }
      sent.push(sending.catch(noteFailure))
    }
  })()
  try {
    const done = await work()
    const seconds = (performance.now() - startedAt) / 1_000
    requireOffered('changes a second', acknowledged / seconds, perSecond)
    isOver = true
    await changing
    await Promise.all(sent)
    if (failure !== undefined) throw failure
    await stage.judged.applied(refreshes, KEEPS_UP_LIMIT_MS)
    await stage.reached('live-view', 'bookChanges', await stage.ends('bookChanges'), KEEPS_UP_LIMIT_MS)
    return done
  } finally {
    isOver = true
    await changing
    await Promise.all(sent)
  }
}
