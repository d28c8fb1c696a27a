/**
 * Builds the console into dist/: `node services/console/build/build.ts`.
 *
 * Runs before a platform starts and before the e2e tests, so it does nothing while a build of the same sources is there.
 * Addresses in dist/index.html are relative to the console's root; the API puts the way there before them.
 */
import { createHash } from 'node:crypto'
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'vite'
import '../../clients/typescript/build/generate.ts'

const ROOM = join(import.meta.dirname, '..')
const REPOSITORY = join(ROOM, '../..')
const STAMP = join(ROOM, 'dist/sources.sha256')
const SOURCES = [
  'services/console/{index.html,build/**,src/**}',
  'services/clients/typescript/src/*',
  'package-lock.json',
]

const hash = createHash('sha256')
for (const file of globSync(SOURCES, { cwd: REPOSITORY, withFileTypes: true })
  .filter(entry => entry.isFile())
  .map(entry => join(entry.parentPath, entry.name))
  .toSorted())
  hash.update(file.slice(REPOSITORY.length)).update(readFileSync(file))
const sources = hash.digest('hex')

if (!existsSync(STAMP) || readFileSync(STAMP, 'utf8') !== sources) {
  await build({
    root: ROOM,
    base: './',
    configFile: false,
    logLevel: 'error',
    worker: { format: 'es' },
    build: { target: 'es2022', modulePreload: { polyfill: false }, assetsInlineLimit: 0, chunkSizeWarningLimit: 1_000 },
  })
  writeFileSync(STAMP, sources)
}
