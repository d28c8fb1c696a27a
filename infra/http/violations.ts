/**
 * Describes what is wrong with a part of a request, in the words of the interface.
 *
 * Invariant: a request of many faults costs little more than one of few. The schema finds all of them, but the first
 * VIOLATIONS_MAX alone are described, the others counted. Inputs are as they were sent; http-error.ts cuts them. Of names that no
 * schema knows, a known one in other letters (`ITEM_ID`, `itemId`) or with brackets behind it (`providers[]`) is always a fault: a client
 * that is answered without its filter takes a wrong answer for the right one. With `strict` every unknown name is one.
 */
import { closest } from 'fastest-levenshtein'
import { z } from 'zod'
import type { Violation } from '#schemas/api/error.ts'
import { boolean, type ViolationParams } from '#schemas/api/query-values.ts'
import { HttpError, VIOLATIONS_MAX } from './http-error.ts'

type Issue = z.core.$ZodIssue
type RawIssue = z.core.$ZodRawIssue
type Described = Pick<Violation, 'type' | 'msg' | 'ctx'>
export type RequestPart = 'path' | 'query' | 'body'

/** The 422 that describes the first violations of a part of a request and counts the others; `faults` are those that no schema sees. */
export function refusalOf(
  issues: readonly RawIssue[],
  faults: readonly Violation[],
  raw: unknown,
  part: RequestPart,
): HttpError {
  const violations = faults.slice(0, VIOLATIONS_MAX)
  let omitted = faults.length - violations.length
  for (const issue of issues) {
    const room = VIOLATIONS_MAX - violations.length
    const count = issue.code === 'unrecognized_keys' ? issue.keys.length : 1
    omitted += Math.max(count - room, 0)
    if (room > 0) violations.push(...violationsOf(issue, raw, part, room))
  }
  return new HttpError('VALIDATION_ERROR', violations, { omitted })
}

/** The 422 of a body that is no object. */
export const noObject = (raw: unknown): HttpError =>
  new HttpError('VALIDATION_ERROR', [violationAt([], raw === undefined ? MISSING : NO_OBJECT, raw, 'body')])

/** The violations of an issue: one, or one for each unknown member. */
function violationsOf(rawIssue: RawIssue, raw: unknown, part: RequestPart, most: number): Violation[] {
  if (rawIssue.code === 'unrecognized_keys') {
    const { path = [], keys } = rawIssue
    return keys.slice(0, most).map(key => violationAt([...path, key], EXTRA, raw, part))
  }
  const issue = z.core.util.finalizeIssue(rawIssue, undefined, z.core.config()) as Issue
  const input = inputAt(raw, issue.path)
  const isRepeated = part === 'query' && Array.isArray(input) && !isOfList(issue)
  return [violationAt(issue.path, isRepeated ? REPEATED : describe(issue, input), raw, part)]
}

const EXTRA: Described = { type: 'extra_forbidden', msg: 'Extra inputs are not permitted', ctx: {} }
const MISSING: Described = { type: 'missing', msg: 'Field required', ctx: {} }

/** Whether an issue is about a list as such, and not about a list where one text is expected. */
const isOfList = (issue: Issue): boolean =>
  ('origin' in issue && issue.origin === 'array') || (issue.code === 'custom' && issue.params?.type === 'too_long')

const REPEATED: Described = { type: 'value_error', msg: 'Parameter should be given only once', ctx: {} }

function violationAt(path: readonly PropertyKey[], described: Described, raw: unknown, part: RequestPart): Violation {
  const steps = path.map(step => (typeof step === 'number' ? step : String(step)))
  return { ...described, loc: [part, ...steps], input: inputAt(raw, path) ?? null }
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
  if (input === undefined && issue.code !== 'custom') return MISSING
  switch (issue.code) {
    case 'custom': {
      const { type, ctx } = (issue.params ?? { type: 'value_error' }) as ViolationParams
      return { type, msg: issue.message, ctx: ctx ?? {} }
    }
    case 'invalid_value': {
      const expected = listed(issue.values.map(value => `'${String(value)}'`))
      return { type: 'enum', msg: 'Input should be one of the values that ctx.expected lists', ctx: { expected } }
    }
    case 'too_small':
    case 'too_big':
      return describeBound(issue)
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

const NO_OBJECT = describeType('object')

/** By kind of bound: the type, the words before and after the number, and its name in ctx. */
const BOUNDS = {
  'too_small string': ['string_too_short', 'Text should have at least', ' character(s)', 'min_length'],
  'too_small array': ['too_short', 'List should have at least', ' member(s)', 'min_length'],
  'too_small inclusive': ['greater_than_equal', 'Input should be greater than or equal to', '', 'ge'],
  'too_small exclusive': ['greater_than', 'Input should be greater than', '', 'gt'],
  'too_big string': ['string_too_long', 'Text should have at most', ' characters', 'max_length'],
  'too_big array': ['too_long', 'List should have at most', ' members', 'max_length'],
  'too_big inclusive': ['less_than_equal', 'Input should be less than or equal to', '', 'le'],
  'too_big exclusive': ['less_than', 'Input should be less than', '', 'lt'],
} as const

function describeBound(issue: z.core.$ZodIssueTooSmall | z.core.$ZodIssueTooBig): Described {
  const { code, origin, inclusive } = issue
  const isLength = origin === 'string' || origin === 'array'
  const kind = isLength ? (origin as 'string' | 'array') : inclusive ? 'inclusive' : 'exclusive'
  const [type, words, unit, name] = BOUNDS[`${code} ${kind}`]
  const bound = Number(code === 'too_small' ? issue.minimum : issue.maximum)
  return { type, msg: `${words} ${bound}${unit}`, ctx: { [name]: bound } }
}

function listed(values: readonly string[]): string {
  const last = values.at(-1) ?? ''
  return values.length > 1 ? `${values.slice(0, -1).join(', ')} or ${last}` : last
}

const STRICT = boolean()

/** No parameter's name is longer. */
const COMPARED_MAX = 40

/** The faults of a query's unknown names; `raw` holds its texts by name. */
export function nameFaults(
  unknown: readonly string[],
  known: readonly string[],
  raw: Readonly<Record<string, unknown>>,
): Violation[] {
  const isStrict = known.includes('strict') && STRICT.safeParse(raw.strict).data === true
  // Of two spellings that are both known the first is the one to write.
  const byForm = new Map(known.toReversed().map(name => [formOf(name), name]))
  const faults: Violation[] = []
  for (const name of unknown) {
    const meant = byForm.get(formOf(name))
    if (meant === undefined && !isStrict) continue
    // Beyond these they are counted alone.
    const nearest = meant ?? (faults.length < VIOLATIONS_MAX ? nearestOf(known, name) : '')
    const msg = meant ? `Parameter should be written ${meant}` : `There is no such parameter; the nearest is ${nearest}`
    faults.push({ type: 'extra_forbidden', loc: ['query', name], msg, input: raw[name], ctx: { expected: nearest } })
  }
  return faults
}

/** The same for all spellings of one name. */
const formOf = (name: string): string => (name.split('[', 1)[0] as string).replaceAll(/[-_]/g, '').toLowerCase()

function nearestOf(known: readonly string[], name: string): string {
  const forms = known.map(formOf)
  return known[forms.indexOf(closest(formOf(name).slice(0, COMPARED_MAX), forms))] ?? ''
}
