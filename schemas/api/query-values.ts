/**
 * What the parameters of a query string and the members of a body are made of.
 *
 * A parameter arrives as a text, or as an array of texts when it was repeated; each schema here
 * turns that into its value. Invariant: a single-valued parameter that came twice is a violation
 * (services/api/violations.ts names it), and so is a NUL in a text. Every violation that zod cannot
 * name itself carries its type and ctx in `params`.
 */
import { z } from 'zod'
import { parseInstant } from '../values/instant.ts'
import { PHASES } from '../values/phase.ts'
import type { ViolationType } from './error.ts'

/** What a custom check reports about its violation. */
export interface ViolationParams {
  type: ViolationType
  ctx?: Record<string, unknown>
}

/** Options of a check that zod has no words for. */
export const violates = (type: ViolationType, message: string, ctx: Record<string, unknown> = {}) => ({
  message,
  params: { type, ctx } satisfies ViolationParams,
})

const INTEGER_FORM = /^[+-]?\d{1,15}$/
const NUMBER_FORM = /^[+-]?(\d{1,15}(\.\d{0,20})?|\.\d{1,20})([eE][+-]?\d{1,2})?$/
const TRUE = new Set(['true', '1', 'yes', 'on', 't', 'y'])
const FALSE = new Set(['false', '0', 'no', 'off', 'f', 'n'])

/** Reads a text by `read`; what it cannot read is a violation of the given type. */
const reading =
  <T>(read: (text: string) => T | undefined, type: ViolationType, message: string) =>
  (value: unknown, context: z.RefinementCtx): T => {
    const found = typeof value === 'string' ? read(value) : undefined
    if (found !== undefined) return found
    context.addIssue({ code: 'custom', ...violates(type, message) })
    return z.NEVER
  }

const numberLike = (form: RegExp) => (text: string) => (form.test(text) ? Number(text) : undefined)

/** Reads a boolean in any of the usual spellings. */
export function readBoolean(text: string): boolean | undefined {
  const word = text.toLowerCase()
  return TRUE.has(word) ? true : FALSE.has(word) ? false : undefined
}

/** An integer; the bounds are part of the API's description. */
export const integer = (bounds: { min?: number; max?: number } = {}) => {
  let number = z.int()
  if (bounds.min !== undefined) number = number.min(bounds.min)
  if (bounds.max !== undefined) number = number.max(bounds.max)
  const read = reading(numberLike(INTEGER_FORM), 'int_parsing', 'Input should be a whole number')
  return z.preprocess(read, number)
}

/** A whole number that is moved into its bounds instead of being refused. */
export const clamped = (bounds: { min: number; max: number; otherwise: number }) =>
  integer()
    .default(bounds.otherwise)
    .transform(value => Math.min(Math.max(value, bounds.min), bounds.max))

/** `limit` and `offset` of a list whose page size is clamped. */
export const clampedPage = (bounds: { max: number; otherwise: number }) => ({
  limit: clamped({ min: 1, ...bounds }),
  offset: integer({ min: 0 }).default(0),
})

/** A number between two bounds, both included. */
export const decimal = (bounds: { min: number; max: number }) => {
  const read = reading(numberLike(NUMBER_FORM), 'float_parsing', 'Input should be a number')
  return z.preprocess(read, z.number().min(bounds.min).max(bounds.max))
}

/** `true` or `false`, in any of the usual spellings. */
export const boolean = () =>
  z.preprocess(reading(readBoolean, 'bool_parsing', 'Input should be true or false'), z.boolean())

/** A member of a body that may be left out; null equals leaving it out. */
export const optional = <T extends z.ZodType>(one: T) => one.nullish().transform(value => value ?? undefined)

/** A text that is neither empty nor carries a NUL or half a surrogate pair. */
export const text = (longest = 200) =>
  z
    .string()
    .min(1)
    .max(longest)
    .refine(value => !value.includes('\0'), violates('value_error', 'Text must not contain a NUL character'))
    .refine(value => value.isWellFormed(), violates('value_error', 'Text must not contain a lone surrogate'))

const UUID_FORM = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** A UUID of any version, in small letters whatever was sent. */
export const uuid = () =>
  z
    .string()
    .refine(value => UUID_FORM.test(value), violates('uuid_parsing', 'Input should be a UUID'))
    .transform(value => value.toLowerCase())

/** A repeatable parameter: one text or several. */
export const repeated = <T extends z.ZodType>(one: T) =>
  z.preprocess(value => (typeof value === 'string' ? [value] : value), z.array(one).min(1).max(200))

/** One of a set of provider keys. */
export const providerKey = (keys: readonly string[]) => z.enum(keys as readonly [string, ...string[]])

/** The phase of an item. */
export const phase = () => z.enum(PHASES)

/** A time: `YYYY-MM-DD`, `YYYY-MM-DDThh:mm:ss` or full ISO 8601; UTC where no offset is given. */
export const time = () =>
  z
    .string()
    .max(40)
    .refine(
      value => parseInstant(value) !== undefined,
      violates('datetime_parsing', 'Input should be YYYY-MM-DD, YYYY-MM-DDThh:mm:ss or an ISO 8601 time'),
    )

/** The currency of amounts where none is asked for. */
export const DEFAULT_CURRENCY = 'USD'

/** A currency code that the FX table lists. */
export const currency = (isKnown: (code: string) => boolean) =>
  z
    .string()
    .max(10)
    .refine(
      isKnown,
      violates('enum', 'Input should be a currency code that GET /fx lists', {
        expected: 'a currency code that GET /fx lists',
      }),
    )
    .default(DEFAULT_CURRENCY)

/** The parameters that choose an item; `item_id` takes precedence over the two others. */
export const itemSelector = {
  item_id: integer({ min: 1 }).optional(),
  market_hash_name: text().optional(),
  phase: phase().optional(),
}
