/**
 * A tiers file whose request limits no benchmark reaches.
 *
 * Requests are metered as always; only the numbers differ, so what a request costs is what it costs in production.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const BUILT_IN = new URL('../../infra/config/tiers.json', import.meta.url)
const PLENTY = 1_000_000_000
const RAISED = new Set([
  'requests_per_minute',
  'requests_per_month',
  'prices_stream_starts_per_day',
  'bids_stream_starts_per_day',
])

/** Writes the file into a folder; returns its path. */
export function writeUnlimitedTiers(folder: string): string {
  const path = join(folder, 'tiers.json')
  const raise = (name: string, value: unknown): unknown => (RAISED.has(name) ? PLENTY : value)
  const tiers = JSON.parse(readFileSync(BUILT_IN, 'utf8'), raise)
  writeFileSync(path, JSON.stringify(tiers))
  return path
}
