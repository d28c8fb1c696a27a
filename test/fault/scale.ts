/**
 * How long the fault tests run and how much they kill and freeze, from the environment.
 *
 * `FAULT=long` (make fault) means fifty kills and ten frozen processes; KILLS, ZOMBIES and ITEMS set each by
 * itself. Without any of them the tests are as short as a run of all tests allows.
 */
import { MINUTE_MS } from '#schemas/values/instant.ts'

/** Sizes of a fault test. */
export interface FaultScale {
  kills: number
  freezes: number
  items: number
  recordsPerSecond: number
  /** Longest time that the test may take. */
  limitMs: number
}

/** The sizes that the environment asks for. */
export function faultScale(environment: NodeJS.ProcessEnv = process.env): FaultScale {
  const isLong = environment.FAULT === 'long'
  const kills = Number(environment.KILLS ?? (isLong ? 50 : 3))
  const freezes = Number(environment.ZOMBIES ?? (isLong ? 10 : 1))
  const items = Number(environment.ITEMS ?? (isLong ? 2_000 : 1_000))
  for (const [name, value] of Object.entries({ KILLS: kills, ZOMBIES: freezes, ITEMS: items })) {
    if (!Number.isInteger(value) || value < 0) throw new Error(`${name} must be a whole number, not ${value}`)
  }
  const limitMs = 600_000 + kills * 45_000 + freezes * MINUTE_MS
  return { kills, freezes, items, recordsPerSecond: 4_000, limitMs }
}
