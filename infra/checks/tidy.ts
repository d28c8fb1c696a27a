/**
 * Tidiness as a failing build: sizes, names, headers, leftovers, places, citations, owners of tables.
 *
 * Functions are measured on swc's syntax tree, the rest on the text. Types, lint and imports have checks of their own.
 */
import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { findLostCitations, findLostReferences } from './citations.ts'
import { findDeadFiles } from './dead-files.ts'
import type { Finding } from './finding.ts'
import { longFunctions } from './function-length.ts'
import { findSharedOracles } from './oracles.ts'
import { findImpure } from './purity.ts'
import { isSource, listFiles, ROOMS, type SourceFile, topLevel } from './source-tree.ts'
import { findSharedTables } from './table-owners.ts'

const FILE_LINES = 400
const FUNCTION_LINES = 70
const HEADER_LINES = 10

/** What the top of the repository may hold. */
const TOP_LEVEL = new Set<string>([
  ...ROOMS,
  ...['package.json', 'package-lock.json', 'tsconfig.json', 'Makefile', 'README.md'],
  ...['.gitignore', '.npmrc', '.biome.json', '.mocharc.json', '.ci', '.dockerignore'],
])

const FORBIDDEN_NAMES = new Set(['utils', 'util', 'helpers', 'helper', 'common', 'misc', 'types', 'index'])
const SOURCE_NAME = /^[a-z0-9]+(-[a-z0-9]+)*(\.test)?\.(ts|js|mjs|cjs)$/
const TEXT_NAME = /(\.(ts|js|mjs|cjs|json|md|yaml|yml|sh|sql|xml|toml|env)|Makefile|Dockerfile)$/

/** Folders of data: large, generated, and no text of ours. Of their code only imports are checked. */
const DATA = /^(infra\/config\/catalog|test\/fixtures)\//

interface LineRule {
  rule: string
  pattern: RegExp
  detail: string
}

/** Lines that code must not hold; the brackets keep the patterns from finding themselves. */
const LEFTOVERS: readonly LineRule[] = [
  { rule: 'no-todo', pattern: /\b(TO[D]O|FIX[M]E|X[X]X|HAC[K])\b/, detail: 'finish it, or open an issue' },
  { rule: 'no-ts-ignore', pattern: /@ts-(ignore|nocheck)\b/, detail: 'fix the type, or narrow it' },
  {
    rule: 'no-skipped-or-only-test',
    pattern: /^\s*(?:(?:describe|context|suite|it|specify|test)\.(?:only|skip)|x(?:it|describe)|this\.skip)\(/,
    detail: 'every test runs in every run',
  },
  {
    rule: 'no-absolute-path',
    pattern: /(^|["'`(=\s])\/(home|root|Users|work|tmp|var\/tmp)\/[\w.]/,
    detail: 'paths of one machine mean nothing on another; use import.meta.dirname or os.tmpdir()',
  },
]

/** Metaphors of our own, in text and in names of any case; a reader of the field would have to ask. The brackets are as above. */
const PRIVATE_WORDS: readonly LineRule[] = [
  { pattern: /set[ -]?[a]side/i, instead: 'dead letter' },
  { pattern: /life[ -]?[s]igns/i, instead: 'broker health' },
  {
    pattern: /stands[ -]?[a]t\b|stands[A]t|stands [b]eside/,
    instead: 'position, or committed offset; or is, or is listed',
  },
  { pattern: /\b[w]hoever\b/i, instead: 'the caller, the consumer' },
  { pattern: /\b[a]new\b/i, instead: 'again, or rebuild' },
  { pattern: /[s]luice/i, instead: 'buffer' },
  { pattern: /[t]eller/i, instead: 'assembler' },
  { pattern: /[t]orment/i, instead: 'kill, freeze' },
  { pattern: /[y]ardstick/i, instead: 'baseline' },
].map(({ pattern, instead }) => ({ rule: 'private-word', pattern, detail: `no word of the field: ${instead}` }))

/** Where alone the environment of the process is read; tests are processes of their own. */
const ENVIRONMENT: LineRule = {
  rule: 'environment',
  pattern: /\bprocess\.[e]nv\b/,
  detail: 'infra/runtime/environment.ts reads it, an entry point asks for it, all else is given values',
}
const MAY_READ_ENVIRONMENT = /^test\/|^infra\/runtime\/environment\.ts$/

/** Texts that are compared byte for byte with what is in registries and databases. */
const PINNED = /schemas\.lock\.json$|\/migrations\//

/** Every untidiness of a tree. */
export function checkTidiness(root: string): Finding[] {
  const paths = listFiles(root)
  const texts = [...paths, ...topLevel(root).filter(name => name !== 'package-lock.json')]
    .filter(path => TEXT_NAME.test(path) && (isSource(path) || !DATA.test(path)))
    .map(path => ({ path, text: readFileSync(join(root, path), 'utf8') }))
  const judged = texts.filter(({ path }) => !DATA.test(path))
  const sources = texts.filter(({ path }) => isSource(path))
  return [
    ...topLevel(root).flatMap(checkPlace),
    ...paths.flatMap(checkName),
    ...judged.flatMap(checkLeftovers),
    ...judged.filter(({ path }) => !PINNED.test(path)).flatMap(checkWords),
    ...judged
      .filter(({ path }) => isSource(path))
      .flatMap(source => [
        ...checkHeader(source),
        ...checkLength(source),
        ...checkFunctions(source),
        ...checkEnvironment(source),
      ]),
    ...findDeadFiles(root, sources),
    ...findSharedOracles(sources),
    ...findImpure(sources),
    ...findLostCitations(texts),
    ...findLostReferences(texts, [...paths, ...topLevel(root)]),
    ...findSharedTables(texts),
  ]
}

function checkPlace(name: string): Finding[] {
  if (TOP_LEVEL.has(name)) return []
  return [{ file: name, rule: 'top-level', detail: 'belongs into a room: the top level holds what TOP_LEVEL lists' }]
}

function checkName(path: string): Finding[] {
  const parts = path.split('/').map(part => part.split('.', 1)[0] ?? '')
  const bad = parts.find(part => FORBIDDEN_NAMES.has(part))
  if (bad !== undefined) {
    return [{ file: path, rule: 'forbidden-name', detail: `"${bad}" says nothing; name the one thing that it holds` }]
  }
  if (!isSource(path) || SOURCE_NAME.test(basename(path))) return []
  return [{ file: path, rule: 'kebab-case', detail: 'file names are kebab-case' }]
}

const checkLeftovers = (file: SourceFile): Finding[] => findLines(LEFTOVERS, file, file.text)

/** The name of a file is judged as a line before its first. */
const checkWords = (file: SourceFile): Finding[] => findLines(PRIVATE_WORDS, file, `${file.path}\n${file.text}`, 0)

const checkEnvironment = (file: SourceFile): Finding[] =>
  MAY_READ_ENVIRONMENT.test(file.path) ? [] : findLines([ENVIRONMENT], file, file.text)

function findLines(rules: readonly LineRule[], { path }: SourceFile, text: string, first = 1): Finding[] {
  const lines = text.split('\n')
  return rules.flatMap(({ rule, pattern, detail }) =>
    lines.flatMap((line, at) => (pattern.test(line) ? [{ file: path, line: at + first, rule, detail }] : [])),
  )
}

function checkHeader({ path, text }: SourceFile): Finding[] {
  const header = /^(?:#!.*\n)?\/\*\*?\n((?: \*.*\n)*?) \*\//.exec(text)
  const lines = (header?.[1] ?? '').split('\n').filter(line => line.replace(/^ \*/, '').trim() !== '').length
  if (lines <= HEADER_LINES) return []
  const detail = `its header comment has ${lines} lines of text, at most ${HEADER_LINES}: say why, and leave the rest to the code`
  return [{ file: path, line: 1, rule: 'header', detail }]
}

function checkLength({ path, text }: SourceFile): Finding[] {
  const lines = text.replace(/\n$/, '').split('\n').length
  if (lines <= FILE_LINES) return []
  return [
    { file: path, rule: 'file-length', detail: `${lines} lines, at most ${FILE_LINES}: split it by what it does` },
  ]
}

function checkFunctions({ path, text }: SourceFile): Finding[] {
  return longFunctions(text, FUNCTION_LINES).map(({ line, lines, name }) => ({
    file: path,
    line,
    rule: 'function-length',
    detail: `${name} has ${lines} lines, at most ${FUNCTION_LINES}`,
  }))
}
