/**
 * Files that nothing reaches, and files of the product that tests alone reach.
 *
 * Follows every quoted path that ends in a source extension: imports of all kinds, and the files that a process is started
 * from. Starts at what outside tools start (package.json, the Makefile, .mocharc.json, .ci/run, images) and at the tests.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import type { Finding } from './finding.ts'
import type { SourceFile } from './source-tree.ts'

const STARTERS = ['package.json', 'Makefile', '.mocharc.json', '.ci/run', 'infra/Dockerfile', 'infra/compose.yaml']
const QUOTED_PATH = /['"`]([\w./#@-]+\.(?:ts|js|mjs|cjs))['"`]/g
const BARE_PATH = /[\w./-]+\.(?:ts|js|mjs|cjs)\b/g

/** The sources that no entry point reaches, and those of the product that no entry point of the product reaches. */
export function findDeadFiles(root: string, sources: readonly SourceFile[]): Finding[] {
  const byPath = new Map(sources.map(source => [source.path, source]))
  const started = STARTERS.filter(file => existsSync(join(root, file)))
    .flatMap(file => [...readFileSync(join(root, file), 'utf8').matchAll(BARE_PATH)])
    .map(([path]) => posix.normalize(path))
  const isTest = (path: string): boolean => path.startsWith('test/')
  const entries = [...byPath.keys()].filter(path => path.endsWith('.test.ts') || started.includes(path))
  const reached = reachedFrom(entries, byPath)
  const used = reachedFrom(
    entries.filter(path => !isTest(path)),
    byPath,
  )
  return [...byPath.keys()].flatMap(file => {
    if (!reached.has(file))
      return [{ file, rule: 'dead-file', detail: 'no command, npm script or test reaches it: use it or delete it' }]
    if (isTest(file) || used.has(file)) return []
    return [{ file, rule: 'tests-alone', detail: 'tests alone reach it: use it, move it below test/, or delete it' }]
  })
}

function reachedFrom(entries: readonly string[], byPath: ReadonlyMap<string, SourceFile>): Set<string> {
  const waiting = [...entries]
  const reached = new Set(waiting)
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    for (const next of pathsIn(byPath.get(path) as SourceFile)) {
      if (!byPath.has(next) || reached.has(next)) continue
      reached.add(next)
      waiting.push(next)
    }
  }
  return reached
}

/** What a file names, read as beside it, as from the root, and as one of the package's own imports. */
function pathsIn({ path, text }: SourceFile): string[] {
  return [...text.matchAll(QUOTED_PATH)].flatMap(([, named = '']) => [
    posix.join(posix.dirname(path), named),
    posix.normalize(named.replace(/^#/, '')),
  ])
}
