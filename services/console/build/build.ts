/**
 * Builds the console into dist/: `node services/console/build/build.ts`.
 *
 * Runs before a platform starts and before the e2e tests, so it does nothing while a build of the same sources is there.
 * Addresses in dist/index.html are relative to the console's root; the API puts the way there before them.
 */
import { createHash } from 'node:crypto'
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build, type Plugin } from 'vite'
import '../../clients/typescript/build/generate.ts'

const ROOM = join(import.meta.dirname, '..')
const REPOSITORY = join(ROOM, '../..')
const STAMP = join(ROOM, 'dist/sources.sha256')
const SOURCES = [
  'services/console/{index.html,build/**,src/**}',
  'services/clients/typescript/src/*',
  'package-lock.json',
]

/** The entry runs its parts one after the other; the page asks for all of them at once. */
const preloads: Plugin = {
  name: 'preloads',
  transformIndexHtml: {
    order: 'post',
    handler(_, { bundle = {}, chunk }) {
      const files = new Set<string>()
      const add = (file: string): void => {
        const part = bundle[file]
        if (files.has(file) || file === chunk?.fileName || part?.type !== 'chunk') return
        files.add(file)
        for (const next of part.imports) add(next)
      }
      for (const file of chunk?.dynamicImports ?? []) add(file)
      return [...files].map(file => ({
        tag: 'link',
        attrs: { rel: 'modulepreload', crossorigin: true, href: `./${file}` },
        injectTo: 'head',
      }))
    },
  },
}

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
    plugins: [preloads],
    worker: { format: 'es' },
    build: { target: 'es2022', modulePreload: { polyfill: false }, assetsInlineLimit: 0, chunkSizeWarningLimit: 1_000 },
  })
  writeFileSync(STAMP, sources)
}
