/**
 * How many units of an item exist: estimates, with the source and date that they rest on.
 *
 * Reads infra/config/supply/estimates.json.gz, writes nothing. Invariant: an item without an estimate has none here and is left
 * out, and counted, where supply matters. The file names its source, date and method.
 */
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { z } from 'zod'

const supplyFile = z.strictObject({
  source: z.string(),
  /** Days of the first and the last count. */
  from: z.iso.date(),
  as_of: z.iso.date(),
  method: z.string(),
  items: z.array(z.tuple([z.int().min(1), z.int().min(1)])),
})

/** Loads the estimated units by item id; throws when the file is missing or not in its form. */
export function loadSupply(): ReadonlyMap<number, number> {
  const file = new URL('./supply/estimates.json.gz', import.meta.url)
  return new Map(supplyFile.parse(JSON.parse(gunzipSync(readFileSync(file)).toString())).items)
}
