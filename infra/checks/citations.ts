/**
 * What comments and Markdown files cite is in the repository: documents with their sections, and in Markdown files also
 * paths (in backticks or as links) and commands of make, npm and marketlog.
 *
 * A comment is a line that begins with the mark of one in any language of the tree, or what follows the mark of a
 * line comment. A document is named by its path from the root or from the citing file, or by the end of its path: a unique
 * file name is enough. Sections are quoted right after it, as in DECISIONS.md, "Alerts" and "Webhooks", and are headings of
 * it, word for word. Addresses of other sites, run data and placeholders (`<view>`, `FILE`) are no citations.
 */
import { posix } from 'node:path'
import type { Finding } from './finding.ts'
import { ROOMS, type SourceFile } from './source-tree.ts'

const DOCUMENT = /(?<![\w./:@-])((?:[\w.-]+\/)*[\w-][\w.-]*\.md)(?![\w-]|\.\w)/.source
const SECTIONS = /("[^"]{1,80}"(?:(?:,|,?\s+and)\s+"[^"]{1,80}")*)/.source
/** A document, and the quoted sections that follow it, in brackets or not. */
const CITATION = new RegExp(`${DOCUMENT}\`?(?:(?:,\\s*|\\s+)\\(?${SECTIONS})?`, 'g')
const QUOTED = /"([^"]+)"/g
const COMMENT_LINE = /^\s*(?:\/\/|\/\*|\*|#|--)/
const LINE_COMMENT = /\s\/\/\s/
const FENCE = /^\s*(?:```|~~~)/
const HEADING = /^#{1,6}\s+(.*?)\s*#*$/
const SHELL_FENCE = /^\s*```sh\b/
const LINK = /\]\(([^)\s]+)\)/g
const CODE_SPAN = /`([^`\n]+)`/g
const PATH = /^(?:[\w@.-]+\/)*[\w@.-]+\/?$/
/** A path of the repository by its form: in a room, a folder, or a file of text. */
const ROOM_PATH = new RegExp(`^(?:${ROOMS.join('|')})/`)
const NAMED_PATH = /\/$|[\w-]\.(?:ts|md|json|ya?ml|sh|sql|java)$/
const OUTSIDE = /^(?:\.run|node_modules)\//
const PLACEHOLDER = /(?:^|\/)(?!README|DECISIONS)[A-Z][A-Z_]*(?:\.[\w.]+|\/|$)/
const MAKE = /(?:^|[\s;&|(])make ([a-z][\w-]*)/g
const NPM_RUN = /\bnpm run ([a-z][\w:-]*)/g
const MARKETLOG = /(?:^|[\s;&|(])(?:npx )?marketlog ([a-z][\w-]*)(?: ([a-z][\w-]*))?/g
const DEFINED_COMMAND = /(?:const (\w+) = )?(?:(\w+)|\))\s*\.command\('([\w-]+)'/g

interface Citation {
  line: number
  document: string
  sections: string[]
}

/** The citations that lead nowhere; `files` holds the Markdown files as well. */
export function findLostCitations(files: readonly SourceFile[]): Finding[] {
  const documents = new Map(files.filter(isMarkdown).map(({ path, text }) => [path, headingsOf(text)]))
  return files.flatMap(file =>
    citationsIn(file).flatMap(({ line, document, sections }) => {
      const beside = posix.join(posix.dirname(file.path), document)
      const found = [...documents].filter(([path]) => path === beside || `/${path}`.endsWith(`/${document}`))
      if (found.length === 0) {
        const detail = `cites ${document}, which is not in the repository: cite what is, or say it here`
        return [{ file: file.path, line, rule: 'missing-document', detail }]
      }
      return sections
        .filter(section => !found.some(([, headings]) => headings.has(section)))
        .map(section => ({
          file: file.path,
          line,
          rule: 'missing-section',
          detail: `cites "${section}", which is no heading of ${found.map(([path]) => path).join(' or ')}`,
        }))
    }),
  )
}

/** The paths, links and commands of Markdown files that lead nowhere; `paths` are all files of the tree. */
export function findLostReferences(files: readonly SourceFile[], paths: readonly string[]): Finding[] {
  const { isPath, isEndOfPath } = pathsKnown(paths)
  const commands = commandsOf(files)
  const anchors = new Map(files.filter(isMarkdown).map(({ path, text }) => [path, anchorsOf(text)]))
  const faultOfLink = (file: string, link: string): string | undefined => {
    const [relative = '', anchor] = link.split('#', 2)
    const target = relative === '' ? file : posix.join(posix.dirname(file), relative)
    if (relative !== '' && !isPath(target)) return 'missing-path'
    return anchor === undefined || (anchors.get(target)?.has(anchor) ?? true) ? undefined : 'missing-section'
  }
  return files.filter(isMarkdown).flatMap(({ path: file, text }) => {
    const lines = text.split('\n')
    const prose = withoutCode(lines)
    const shell = shellLines(lines)
    return lines.flatMap((_, at) => {
      const line = prose[at] ?? ''
      const spans = [...line.matchAll(CODE_SPAN)].map(([, span = '']) => span)
      const links = [...line.matchAll(LINK)].map(([, link = '']) => link).filter(link => !/^\w+:/.test(link))
      const lost = [
        ...spans
          .filter(path => looksLikePath(path) && !isEndOfPath(path))
          .map(name => ({ rule: 'missing-path', name })),
        ...links.flatMap(name => {
          const rule = faultOfLink(file, name)
          return rule === undefined ? [] : [{ rule, name }]
        }),
        ...[...spans, shell[at] ?? '']
          .flatMap(code => unknownCommands(code, commands))
          .map(name => ({ rule: 'missing-command', name })),
      ]
      return lost.map(({ rule, name }) => ({
        file,
        line: at + 1,
        rule,
        detail: `names ${name}, which is not in the repository`,
      }))
    })
  })
}

/** What links to the sections of a document end in. */
const anchorsOf = (text: string): ReadonlySet<string> =>
  new Set(
    [...headingsOf(text)].map(heading =>
      heading
        .toLowerCase()
        .replaceAll(/[^\w\s-]/g, '')
        .replaceAll(/\s/g, '-'),
    ),
  )

const looksLikePath = (text: string): boolean =>
  PATH.test(text) && (ROOM_PATH.test(text) || NAMED_PATH.test(text)) && !OUTSIDE.test(text) && !PLACEHOLDER.test(text)

/** Whether a path is that of a file or folder, and whether it is a part of one: a name is enough. */
function pathsKnown(paths: readonly string[]): Record<'isPath' | 'isEndOfPath', (path: string) => boolean> {
  const whole = new Set(['.'])
  const ends = new Set<string>()
  for (const path of paths) {
    const parts = path.split('/')
    for (let end = 1; end <= parts.length; end++) {
      whole.add(parts.slice(0, end).join('/'))
      for (let first = 0; first < end; first++) ends.add(parts.slice(first, end).join('/'))
    }
  }
  const withoutSlash = (path: string): string => path.replace(/\/$/, '')
  return { isPath: path => whole.has(withoutSlash(path)), isEndOfPath: path => ends.has(withoutSlash(path)) }
}

interface Commands {
  make: ReadonlySet<string>
  npm: ReadonlySet<string>
  /** Each with the commands below it. */
  marketlog: ReadonlyMap<string, ReadonlySet<string>>
}

function commandsOf(files: readonly SourceFile[]): Commands {
  const textOf = (path: string): string => files.find(file => file.path === path)?.text ?? ''
  const { scripts = {} } = JSON.parse(textOf('package.json') || '{}') as { scripts?: Record<string, string> }
  return {
    make: new Set([...textOf('Makefile').matchAll(/^([a-z][\w-]*):/gm)].map(([, target = '']) => target)),
    npm: new Set(Object.keys(scripts)),
    marketlog: marketlogCommands(files.filter(({ path }) => /^services\/cli\/.*\.ts$/.test(path))),
  }
}

/** Read from commander's definitions: `program.command('a')`, `const a = program.command('a')` and what is chained to either. */
function marketlogCommands(sources: readonly SourceFile[]): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>()
  for (const { text } of sources) {
    const variables = new Map<string, string>()
    let last = ''
    for (const [, variable, receiver, name = ''] of text.matchAll(DEFINED_COMMAND)) {
      const parent = receiver === undefined ? last : variables.get(receiver)
      if (parent) found.get(parent)?.add(name)
      else found.set(name, found.get(name) ?? new Set())
      if (variable !== undefined) variables.set(variable, name)
      if (!parent) last = name
    }
  }
  return found
}

function unknownCommands(code: string, { make, npm, marketlog }: Commands): string[] {
  const targets = [...code.matchAll(MAKE)].filter(([, target = '']) => !make.has(target))
  const scripts = [...code.matchAll(NPM_RUN)].filter(([, script = '']) => !npm.has(script))
  const commands = [...code.matchAll(MARKETLOG)].filter(([, name = '', next]) => {
    const below = marketlog.get(name)
    return !below || (below.size > 0 && next !== undefined && !below.has(next))
  })
  return [...targets, ...scripts, ...commands].map(([found]) => found.trim())
}

/** Lines of the blocks of shell commands, without comments; all others empty. */
function shellLines(lines: readonly string[]): string[] {
  let isShell = false
  return lines.map(line => {
    if (FENCE.test(line)) isShell = !isShell && SHELL_FENCE.test(line)
    return isShell && !FENCE.test(line) ? line.replace(/(?:^|\s)#.*/, '') : ''
  })
}

const isMarkdown = ({ path }: SourceFile): boolean => path.endsWith('.md')

function citationsIn(file: SourceFile): Citation[] {
  const lines = file.text.split('\n')
  const text = (isMarkdown(file) ? withoutCode(lines) : lines.map(commentOf)).join('\n')
  return [...text.matchAll(CITATION)].map(({ 1: document = '', 2: quoted = '', index }) => ({
    line: text.slice(0, index).split('\n').length,
    document,
    sections: [...quoted.matchAll(QUOTED)].map(([, section = '']) => section.replaceAll(/\s+/g, ' ')),
  }))
}

/** The comment of a line, without its mark; empty where there is none. */
function commentOf(line: string): string {
  if (COMMENT_LINE.test(line)) return line.replace(COMMENT_LINE, '')
  const at = line.search(LINE_COMMENT)
  return at < 0 ? '' : line.slice(at + 3)
}

/** Lines of Markdown, with those of code blocks emptied. */
function withoutCode(lines: readonly string[]): string[] {
  let isCode = false
  return lines.map(line => {
    const isFence = FENCE.test(line)
    if (isFence) isCode = !isCode
    return isFence || isCode ? '' : line
  })
}

function headingsOf(text: string): ReadonlySet<string> {
  const headings = withoutCode(text.split('\n')).map(line => HEADING.exec(line)?.[1]?.replaceAll('`', ''))
  return new Set(headings.filter(heading => heading !== undefined))
}
