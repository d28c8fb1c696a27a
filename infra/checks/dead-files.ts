/**
 * Files that nothing reaches.
 *
 * Follows every quoted path that ends in a source extension: imports of all kinds, and the files that a
 * process is started from. Starts at what outside tools start: package.json (bin, scripts), the Makefile,
 * .mocharc.json, .ci/run and the tests themselves. Invariant: a file named by none of those is dead.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import type { Finding } from './finding.ts'
import type { SourceFile } from './source-tree.ts'

const STARTERS = ['package.json', 'Makefile', '.mocharc.json', '.ci/run', 'infra/Dockerfile', 'infra/compose.yaml']
const QUOTED_PATH = /['"`]([\w./#@-]+\.(?:ts|js|mjs|cjs))['"`]/g
const BARE_PATH = /[\w./-]+\.(?:ts|js|mjs|cjs)\b/g

/** The sources that no entry point reaches. */
export function findDeadFiles(root: string, sources: readonly SourceFile[]): Finding[] {
  const byPath = new Map(sources.map(source => [source.path, source]))
  const started = STARTERS.filter(file => existsSync(join(root, file)))
    .flatMap(file => [...readFileSync(join(root, file), 'utf8').matchAll(BARE_PATH)])
    .map(([path]) => posix.normalize(path))
  const waiting = [...byPath.keys()].filter(path => path.endsWith('.test.ts') || started.includes(path))
  const reached = new Set(waiting)
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    for (const next of pathsIn(byPath.get(path) as SourceFile)) {
      if (!byPath.has(next) || reached.has(next)) continue
      reached.add(next)
      waiting.push(next)
    }
  }
  return [...byPath.keys()]
    .filter(path => !reached.has(path))
    .map(file => ({
      file,
      rule: 'dead-file',
      detail: 'no command, npm script or test reaches it: use it or delete it',
    }))
}

/** What a file names, read as beside it, as from the root, and as one of the package's own imports. */
function pathsIn({ path, text }: SourceFile): string[] {
  return [...text.matchAll(QUOTED_PATH)].flatMap(([, named = '']) => [
    posix.join(posix.dirname(path), named),
    posix.normalize(named.replace(/^#/, '')),
  ])
}
