/**
 * An oracle shares no code with what it judges: an error in the shared part would be expected as well.
 *
 * Reads import and export statements as text, since the parser of the import rules does not distinguish types from values. An oracle
 * imports types from anywhere, and values from packages, other oracles and the sources of randomness alone.
 */
import { posix } from 'node:path'
import type { Finding } from './finding.ts'
import type { SourceFile } from './source-tree.ts'

/** What tests compare the platform with. */
const ORACLES = [/^test\/oracles\//, /^test\/harness\/reference-fold\.ts$/, /^test\/fault\/alert-truth\.ts$/]
const MAY_BE_SHARED = [...ORACLES, /^test\/harness\/seeded-random\.ts$/]

const STATEMENT = /^(?:import|export)\s(?!type\s)(?:[^'"`;=]*?\sfrom\s+)?['"]([#.][^'"]+)['"]/gm
const DYNAMIC = /\bimport\(\s*['"`]([#.][^'"`]+)['"`]/g
const INLINE_TYPES = /^import\s*\{(?:\s*type\s[^,}]+,?)+\s*\}/

/** The imports by which oracles share code with the platform. */
export function findSharedOracles(sources: readonly SourceFile[]): Finding[] {
  return sources
    .filter(({ path }) => ORACLES.some(each => each.test(path)))
    .flatMap(({ path, text }) =>
      [...text.matchAll(STATEMENT), ...text.matchAll(DYNAMIC)]
        .filter(([statement]) => !INLINE_TYPES.test(statement))
        .map(([, named = '']) => (named.startsWith('#') ? named.slice(1) : posix.join(posix.dirname(path), named)))
        .filter(target => !MAY_BE_SHARED.some(each => each.test(target)))
        .map(target => ({
          file: path,
          rule: 'oracle-shares-code',
          detail: `imports ${target}: an oracle takes types alone from what it judges, and from tests that are none`,
        })),
    )
}
