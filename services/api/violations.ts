/**
 * Turns zod's issues into the violations that clients read.
 *
 * Pure. Types, locations and contexts: DECISIONS.md, "Errors". Invariant: every issue becomes exactly one
 * violation (an unknown member each), and `input` is what the client sent at that path, without keys and tokens
 * of this platform.
 */
import type { z } from 'zod'
import type { Violation } from '#schemas/api/error.ts'
import type { ViolationParams } from '#schemas/api/query-values.ts'
import { shownInput } from '#schemas/api/shown-input.ts'

type Issue = z.core.$ZodIssue
type Described = Pick<Violation, 'type' | 'msg' | 'ctx'>

/** All violations of a request part whose raw value is `raw`. */
export function violationsOf(issues: readonly Issue[], raw: unknown, part: 'path' | 'query' | 'body'): Violation[] {
  return issues.flatMap(issue => {
    if (issue.code === 'unrecognized_keys') {
      const described: Described = { type: 'extra_forbidden', msg: 'Extra inputs are not permitted', ctx: {} }
      return issue.keys.map(key => violationAt([...issue.path, key], described, raw, part))
    }
    const input = inputAt(raw, issue.path)
    const isRepeated = part === 'query' && Array.isArray(input) && !('origin' in issue && issue.origin === 'array')
    return [violationAt(issue.path, isRepeated ? REPEATED : describe(issue, input), raw, part)]
  })
}

const REPEATED: Described = { type: 'value_error', msg: 'Parameter should be given only once', ctx: {} }

function violationAt(path: readonly PropertyKey[], described: Described, raw: unknown, part: string): Violation {
  const steps = path.map(step => (typeof step === 'number' ? step : String(step)))
  const input = shownInput(inputAt(raw, path) ?? null)
  return { type: described.type, loc: [part, ...steps], msg: described.msg, input, ctx: described.ctx }
}

/** A single text of a repeatable parameter is a list of one. */
function inputAt(raw: unknown, path: readonly PropertyKey[]): unknown {
  let value = raw
  for (const step of path) {
    if (typeof step === 'number' && step === 0 && typeof value === 'string') continue
    if (typeof value !== 'object' || value === null) return undefined
    value = (value as Record<PropertyKey, unknown>)[step]
  }
  return value
}

function describe(issue: Issue, input: unknown): Described {
  if (input === undefined && issue.code !== 'custom') return { type: 'missing', msg: 'Field required', ctx: {} }
  switch (issue.code) {
    case 'custom': {
      const { type, ctx } = (issue.params ?? { type: 'value_error' }) as ViolationParams
      return { type, msg: issue.message, ctx: ctx ?? {} }
    }
    case 'invalid_value': {
      const expected = listed(issue.values.map(value => `'${String(value)}'`))
      return { type: 'enum', msg: `Input should be ${expected}`, ctx: { expected } }
    }
    case 'too_small':
      return describeTooSmall(issue)
    case 'too_big':
      return describeTooBig(issue)
    case 'invalid_type':
      return TYPES[issue.expected] ?? describeType(issue.expected)
    default:
      return { type: 'value_error', msg: issue.message, ctx: {} }
  }
}

const TYPES: Record<string, Described> = {
  string: { type: 'string_type', msg: 'Input should be a text', ctx: {} },
  number: { type: 'int_parsing', msg: 'Input should be a whole number', ctx: {} },
  int: { type: 'int_parsing', msg: 'Input should be a whole number', ctx: {} },
  boolean: { type: 'bool_parsing', msg: 'Input should be true or false', ctx: {} },
}

const describeType = (expected: string): Described => ({
  type: 'value_error',
  msg: `Input should be of type ${expected}`,
  ctx: { expected },
})

function describeTooSmall(issue: z.core.$ZodIssueTooSmall): Described {
  const least = Number(issue.minimum)
  if (issue.origin === 'string') {
    return {
      type: 'string_too_short',
      msg: `Text should have at least ${least} character(s)`,
      ctx: { min_length: least },
    }
  }
  if (issue.origin === 'array') {
    return { type: 'too_short', msg: `List should have at least ${least} member(s)`, ctx: { min_length: least } }
  }
  return issue.inclusive
    ? { type: 'greater_than_equal', msg: `Input should be greater than or equal to ${least}`, ctx: { ge: least } }
    : { type: 'greater_than', msg: `Input should be greater than ${least}`, ctx: { gt: least } }
}

function describeTooBig(issue: z.core.$ZodIssueTooBig): Described {
  const most = Number(issue.maximum)
  if (issue.origin === 'string') {
    return { type: 'string_too_long', msg: `Text should have at most ${most} characters`, ctx: { max_length: most } }
  }
  if (issue.origin === 'array') {
    return { type: 'too_long', msg: `List should have at most ${most} members`, ctx: { max_length: most } }
  }
  return issue.inclusive
    ? { type: 'less_than_equal', msg: `Input should be less than or equal to ${most}`, ctx: { le: most } }
    : { type: 'less_than', msg: `Input should be less than ${most}`, ctx: { lt: most } }
}

function listed(values: readonly string[]): string {
  const last = values.at(-1) ?? ''
  return values.length > 1 ? `${values.slice(0, -1).join(', ')} or ${last}` : last
}
