/**
 * Measures functions on the syntax tree.
 *
 * Reads source text, writes nothing. Invariant: a nested function counts in its own right and in the
 * one around it; the callback of `describe` is no function but a chapter, and counts not at all.
 */
import { parseSync } from '@swc/core'

/** A function that is longer than allowed. */
interface LongFunction {
  name: string
  line: number
  lines: number
}

interface Node {
  type?: string
  span?: { start: number; end: number }
  [member: string]: unknown
}

const FUNCTIONS = new Set([
  ...['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression', 'MethodProperty', 'GetterProperty'],
  ...['SetterProperty', 'ClassMethod', 'PrivateMethod', 'Constructor'],
])

/** The functions of a source text that span more than `limit` lines. */
export function longFunctions(text: string, limit: number): LongFunction[] {
  // The leading semicolon is the first token, so its position is where the text begins.
  const module = parseSync(`;${text.replace(/^#!/, '//')}`, { syntax: 'typescript', target: 'es2024' })
  const bytes = Buffer.from(`;${text}`)
  const lineAt = (position: number) => countLines(bytes.subarray(0, position - module.span.start))
  const found: LongFunction[] = []
  const visit = (node: unknown, name: string, isChapter: boolean): void => {
    if (Array.isArray(node)) {
      for (const one of node) visit(one, name, isChapter)
      return
    }
    if (typeof node !== 'object' || node === null) return
    const one = node as Node
    const called = nameOf(one) ?? name
    const isFunction = one.span !== undefined && FUNCTIONS.has(one.type ?? '')
    if (isFunction && one.span && !isChapter) {
      const line = lineAt(one.span.start)
      const lines = lineAt(one.span.end) - line + 1
      if (lines > limit) found.push({ name: called, line, lines })
    }
    // Only the direct callback is the chapter, not what it contains.
    const opensChapter = one.type === 'CallExpression' && calleeOf(one) === 'describe'
    const stays = isChapter && !isFunction
    for (const [member, value] of Object.entries(one)) {
      if (member !== 'span') visit(value, called, opensChapter || stays)
    }
  }
  visit(module.body, 'a function', false)
  return found
}

/** The 1-based line at the end of the given bytes. */
function countLines(before: Buffer): number {
  let lines = 1
  for (let at = before.indexOf(10); at >= 0; at = before.indexOf(10, at + 1)) lines++
  return lines
}

function nameOf(node: Node): string | undefined {
  for (const member of ['identifier', 'key', 'id']) {
    const value = (node[member] as Node | undefined)?.value
    if (typeof value === 'string') return value
  }
  return undefined
}

function calleeOf(call: Node): string | undefined {
  const callee = call.callee as Node | undefined
  return callee?.type === 'Identifier' ? (callee.value as string) : undefined
}
