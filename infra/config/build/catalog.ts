/**
 * `npm run catalog:build [-- --market DIR]`: builds the catalog files and says what they cover.
 *
 * Reads the source package, the files as they are, and of DIR, where one is given, what there is: recorded refreshes
 * (`refreshes/`), and history tables (`history/`) whose names prove qualities but, being written differently, become no items. Writes the files of CATALOG_FILES. Invariant:
 * numbers given once stay (assemble.ts), and the revision grows with each change of content. Running it again without
 * news changes no byte.
 */
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { gunzipSync } from 'node:zlib'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { CATALOG_FILES, catalogRevision, packItems, unpackItems } from '../catalog.ts'
import { assembleCatalog } from './assemble.ts'
import { readSource } from './source.ts'

const { values } = parseArgs({
  options: { market: { type: 'string' } },
})

const refreshes = values.market === undefined ? [] : readRefreshNames(join(values.market, 'refreshes'))
const histories = values.market === undefined ? [] : readHistoryNames(join(values.market, 'history'))
const previous = { items: readItems(CATALOG_FILES.items), observed: readItems(CATALOG_FILES.observed) }
const seen = [...new Set(refreshes.flatMap(refresh => refresh.names))]
const catalog = assembleCatalog(readSource(), seen, previous, histories)
const packed = { items: packItems(catalog.items), observed: packItems(catalog.observed) }
if (isChanged('items') || isChanged('observed')) {
  // The revision first: a build cut short may skip a number, and never gives one number to two contents.
  write(CATALOG_FILES.revision, Buffer.from(`${catalogRevision() + 1}\n`))
  write(CATALOG_FILES.items, packed.items)
  write(CATALOG_FILES.observed, packed.observed)
}
report()

function readRefreshNames(folder: string): { file: string; names: string[] }[] {
  if (!existsSync(folder)) throw new Error(`there are no recorded refreshes in ${folder}`)
  const files = readdirSync(folder).filter(file => file.endsWith('.json.gz'))
  return files.sort().map(file => {
    const { prices } = JSON.parse(gunzipSync(readFileSync(join(folder, file))).toString()) as { prices: object }
    return { file, names: Object.keys(prices) }
  })
}

/** The first column of every table; quoted where the name holds a comma. */
function readHistoryNames(folder: string): string[] {
  if (!existsSync(folder)) return []
  const names = new Set<string>()
  for (const file of readdirSync(folder).filter(one => one.endsWith('.csv.gz'))) {
    for (const line of gunzipSync(readFileSync(join(folder, file)))
      .toString()
      .split('\n')
      .slice(1)) {
      const cell = /^"(?:[^"]|"")*"|^[^,]*/.exec(line)?.[0] ?? ''
      names.add(cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell)
    }
  }
  return [...names]
}

function readItems(file: URL): CatalogItem[] {
  return existsSync(file) ? unpackItems(readFileSync(file)) : []
}

function isChanged(part: keyof typeof packed): boolean {
  return !existsSync(CATALOG_FILES[part]) || !readFileSync(CATALOG_FILES[part]).equals(packed[part])
}

/** Writes beside and renames, so that a build cut short leaves the old file whole. */
function write(file: URL, bytes: Buffer): void {
  const beside = new URL(`${file.href}.part`)
  writeFileSync(beside, bytes)
  renameSync(beside, file)
}

function report(): void {
  const added = catalog.items.length + catalog.observed.length - previous.items.length - previous.observed.length
  const phases = catalog.items.filter(item => item.phase !== null).length
  console.log(`from the source: ${catalog.items.length} items (${phases} phases), ${packed.items.length} bytes`)
  console.log(
    `from observed names: ${catalog.observed.length} items, ${packed.observed.length} bytes; ${added} new in this build`,
  )
  if (refreshes.length === 0) return
  const fromSource = new Set(catalog.items.map(item => item.market_hash_name))
  const all = new Set([...fromSource, ...catalog.observed.map(item => item.market_hash_name)])
  const rows = [{ file: 'all refreshes', names: seen }, ...refreshes]
  const covered = rows.map(({ file, names }) => ({
    file,
    names: names.length,
    source: share(names, fromSource),
    both: share(names, all),
  }))
  const worst = covered.reduce((least, row) => (row.source < least.source ? row : least))
  for (const row of [covered[0] ?? worst, worst]) {
    console.log(
      `${row.file}: ${row.names} names, ${row.source.toFixed(2)} % by the source, ${row.both.toFixed(2)} % by both`,
    )
  }
}

function share(names: readonly string[], known: Set<string>): number {
  return (100 * names.filter(name => known.has(name)).length) / names.length
}
