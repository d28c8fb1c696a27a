/**
 * The documents that comments and Markdown files cite are in the repository, with the sections that they name.
 *
 * A comment is a line that begins with the mark of one in any language of the tree, or what follows the mark of a
 * line comment; of Markdown everything counts but blocks of code. A document is named by its path from the root or from
 * the citing file, or by the end of its path: a unique file name is enough. Sections are quoted right after it, as in
 * DECISIONS.md, "Alerts" and "Webhooks", and are headings of it, word for word. Invariant: names in code and addresses
 * of other sites are no citations.
 */
import { posix } from 'node:path'
import type { Finding } from './finding.ts'
import type { SourceFile } from './source-tree.ts'

const DOCUMENT = /(?<![\w./:@-])((?:[\w.-]+\/)*[\w-][\w.-]*\.md)(?![\w-]|\.\w)/.source
const SECTIONS = /("[^"]{1,80}"(?:(?:,|,?\s+and)\s+"[^"]{1,80}")*)/.source
/** A document, and the quoted sections that follow it, in brackets or not. */
const CITATION = new RegExp(`${DOCUMENT}\`?(?:(?:,\\s*|\\s+)\\(?${SECTIONS})?`, 'g')
const QUOTED = /"([^"]+)"/g
const COMMENT_LINE = /^\s*(?:\/\/|\/\*|\*|#|--)/
const LINE_COMMENT = /\s\/\/\s/
const FENCE = /^\s*(?:```|~~~)/
const HEADING = /^#{1,6}\s+(.*?)\s*#*$/

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
