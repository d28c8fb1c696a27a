/**
 * Pure files give the same answer on every replay: no clock, chance, environment, I/O or state of the module.
 *
 * Pure by place: schemas/, and step.ts, judge.ts and map.ts of streams and services. Pure by word: a header with a line that
 * begins with "Pure." or "Pure:". Pure by use: whatever these import for its values. Reads the text, as the oracles' check does,
 * since a type of a client room does no I/O.
 */
import { posix } from 'node:path'
import type { Finding } from './finding.ts'
import type { SourceFile } from './source-tree.ts'

const BY_PLACE = /^schemas\/|^(?:streams|services)\/(?:.+\/)?(?:step|judge|map)\.ts$/
const BY_WORD = /^\/\*\*\n(?: \*.*\n)*? \* Pure[.:;]/

const IMPURE =
  /\b(Date\.now\b|new Date\(\)|performance\.now|Math\.random|process\.|fetch\(|setTimeout|setInterval|randomUUID|randomBytes)/
/** Rooms that hold a client of something outside the process, or start one. */
const CLIENT_ROOM = /^infra\/(?:kafka|redis|clickhouse|postgres|mail|outbound|sign-in|parquet|stack)\//
const IO_MODULE =
  /^(?:node:)?(?:fs|net|tls|https?|http2|dns|dgram|child_process|worker_threads|cluster|process|os|readline)(?:\/|$)/
const VALUE_IMPORT = /^(?:import|export)\s(?!type\s)(?:[^'"`;=]*?\sfrom\s+)?['"]([^'"]+)['"]/gm
const DYNAMIC_IMPORT = /\bimport\(\s*['"`]([^'"`]+)['"`]/g
const INLINE_TYPES = /^import\s*\{(?:\s*type\s[^,}]+,?)+\s*\}/

const VARIABLE = /^(?:export )?(?:let|var) (\w+)/
const COLLECTION = /^(?:export )?const (\w+)(?:: [^=]*)? = (?:new (?:Map|Set|WeakMap|WeakSet|Array)\b|\[|\{)/
const CHANGES = 'set|add|push|unshift|pop|shift|splice|delete|clear|sort|reverse|fill'

/** What is impure in the pure files of a tree. */
export function findImpure(sources: readonly SourceFile[]): Finding[] {
  const byPath = new Map(sources.filter(({ path }) => !path.startsWith('test/')).map(source => [source.path, source]))
  const because = new Map<string, string>()
  for (const { path, text } of byPath.values())
    if (BY_PLACE.test(path) || BY_WORD.test(text)) because.set(path, 'a pure file')
  for (const [path] of because) {
    const source = byPath.get(path)
    for (const next of source ? valuesOf(source) : [])
      if (byPath.has(next) && !because.has(next) && !CLIENT_ROOM.test(next))
        because.set(next, `a file that the pure ${path} uses`)
  }
  return [...because].flatMap(([path, why]) => {
    const source = byPath.get(path)
    return source ? [...impureImports(source, why), ...impureLines(source, why), ...moduleState(source, why)] : []
  })
}

/** The files and packages whose values a file imports. */
function valuesOf({ path, text }: SourceFile): string[] {
  return [...text.matchAll(VALUE_IMPORT), ...text.matchAll(DYNAMIC_IMPORT)]
    .filter(([statement]) => !INLINE_TYPES.test(statement))
    .map(([, named = '']) => {
      if (named.startsWith('.')) return posix.join(posix.dirname(path), named)
      return named.replace(/^#/, '')
    })
}

function impureImports(source: SourceFile, why: string): Finding[] {
  return valuesOf(source)
    .filter(named => CLIENT_ROOM.test(named) || IO_MODULE.test(named))
    .map(named => ({
      file: source.path,
      rule: 'pure',
      detail: `${named} in ${why}: what it reads arrives as an argument`,
    }))
}

function impureLines({ path, text }: SourceFile, why: string): Finding[] {
  return text.split('\n').flatMap((line, at) => {
    const found = /^\s*(?:\*|\/[/*])/.test(line) ? null : IMPURE.exec(line)
    if (!found) return []
    const detail = `${found[1]} in ${why}: time, chance and settings arrive as arguments`
    return [{ file: path, line: at + 1, rule: 'pure', detail }]
  })
}

/** Variables of the module, and its collections that a function changes. */
function moduleState({ path, text }: SourceFile, why: string): Finding[] {
  const lines = text.split('\n')
  return lines.flatMap((line, at) => {
    const variable = VARIABLE.exec(line)?.[1]
    const collection = COLLECTION.exec(line)?.[1]
    const isKept = variable !== undefined || (collection !== undefined && lines.some(changes(collection)))
    if (!isKept) return []
    const detail = `${variable ?? collection} is state of the module in ${why}: state arrives as an argument`
    return [{ file: path, line: at + 1, rule: 'pure', detail }]
  })
}

/** Whether a line inside a function changes the collection of that name. */
function changes(name: string): (line: string) => boolean {
  const change = new RegExp(
    `^\\s.*(?<![.\\w])${name}(?:\\.(?:${CHANGES})\\(|(?:\\[[^\\]]*\\]|\\.\\w+)\\s*(?:[-+*/?&|]{0,2}=(?!=)|\\+\\+|--))`,
  )
  return line => change.test(line)
}
