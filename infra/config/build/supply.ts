/**
 * Builds the supply estimates: `npm run supply:build -- HISTORY.csv.gz`.
 *
 * Reads a history file (`market_hash_name,date,price_minor,currency,listings`) and the catalog, writes
 * estimates.json.gz. No marketplace publishes how many units of an item exist. What can be counted is how many were offered at
 * once on a large market; a fixed share of all units is taken to be on offer at the peak. So an estimate ranks items
 * well and is no census. Items that were never counted have none. Nothing at run time needs this file.
 */
import { createReadStream, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { createGunzip, gzipSync } from 'node:zlib'
import { parse } from 'csv-parse'
import { openItemNames } from '#schemas/values/item-name.ts'
import { readMarketText } from '#schemas/values/market-text.ts'
import { loadCatalog } from '../catalog.ts'

/** Units that exist for each unit on offer at the peak: an assumption, the same for all items. */
const UNITS_PER_LISTING = 50

const [file] = process.argv.slice(2)
if (file === undefined) throw new Error('which history file? npm run supply:build -- HISTORY.csv.gz')
const { idOf } = openItemNames(loadCatalog())
const peaks = new Map<number, number>()
let [first, last] = ['9999-12-31', '0000-01-01']
const rows = createReadStream(file)
  .pipe(createGunzip())
  .pipe(parse({ columns: true }))
for await (const row of rows as AsyncIterable<Record<string, string>>) {
  const { market_hash_name = '', date = '', listings = '' } = row
  if (!/^\d+$/.test(listings)) continue
  const { name, phase } = readMarketText(market_hash_name)
  const id = idOf(name, phase)
  if (id === undefined || Number(listings) === 0) continue
  peaks.set(id, Math.max(peaks.get(id) ?? 0, Number(listings)))
  if (date < first) first = date
  if (date > last) last = date
}
const estimates = {
  source: 'listing counts in the daily history of one large marketplace (prices in CNY)',
  from: first,
  as_of: last,
  method: `estimate: the most listings that were counted at once, times ${UNITS_PER_LISTING} (an assumed share of 2 percent on offer)`,
  items: [...peaks].sort(([a], [b]) => a - b).map(([id, peak]) => [id, peak * UNITS_PER_LISTING]),
}
writeFileSync(
  fileURLToPath(new URL('../supply/estimates.json.gz', import.meta.url)),
  gzipSync(JSON.stringify(estimates), { level: 9 }),
)
process.stdout.write(`${peaks.size} items, counted from ${first} to ${last}\n`)
