/**
 * `npm run catalog:build [-- --refreshes DIR]`: builds the catalog files and says how many items they hold.
 *
 * Reads the source package, the files as they are, and the names of the recorded refreshes in DIR, where one is given. Writes the files
 * of CATALOG_FILES. Invariant: numbers given once stay (assemble.ts), and the revision grows with each change of content. Running it
 * again without news changes nothing.
 */
import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { constants, gunzipSync, zstdCompressSync } from 'node:zlib'
import { CATALOG_FILES, catalogRevision, loadPart } from '../catalog.ts'
import { assembleCatalog } from './assemble.ts'
import { readSource } from './source.ts'

/** At this level and window the files have 1.4 MB instead of 1.8. */
const PACKING = { params: { [constants.ZSTD_c_compressionLevel]: 19, [constants.ZSTD_c_windowLog]: 25 } }

const { values } = parseArgs({ options: { refreshes: { type: 'string' } } })
const names = values.refreshes === undefined ? [] : readNames(values.refreshes)
const previous = { items: loadPart('items'), observed: loadPart('observed') }
const catalog = assembleCatalog(readSource(), names, previous)
if (JSON.stringify(catalog) !== JSON.stringify(previous)) {
  // The revision first: a build cut short may skip a number, and never gives one number to two contents.
  write(CATALOG_FILES.revision, `${catalogRevision() + 1}\n`)
  for (const part of ['items', 'observed'] as const)
    write(CATALOG_FILES[part], zstdCompressSync(JSON.stringify(catalog[part]), PACKING))
}
for (const part of ['items', 'observed'] as const)
  console.log(`${part}: ${catalog[part].length}, ${catalog[part].length - previous[part].length} more than before`)

function readNames(folder: string): string[] {
  const files = readdirSync(folder).filter(file => file.endsWith('.json.gz'))
  if (files.length === 0) throw new Error(`there are no recorded refreshes in ${folder}`)
  const all = files.flatMap(file => {
    const { prices } = JSON.parse(gunzipSync(readFileSync(join(folder, file))).toString()) as { prices: object }
    return Object.keys(prices)
  })
  return [...new Set(all)]
}

/** Writes beside and renames, so that a build cut short leaves the old file whole. */
function write(file: URL, content: Buffer | string): void {
  const beside = new URL(`${file.href}.part`)
  writeFileSync(beside, content)
  renameSync(beside, file)
}
