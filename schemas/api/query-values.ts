/**
 * Schemas of query parameters and body members that several operations share.
 *
 * A parameter arrives as a text, or as an array of texts when it was repeated; each schema here turns that into its
 * value. Every violation that zod cannot name itself carries its type and ctx in `params`. A member that means the
 * same in every operation has its description and example here, any other in the schema of its operation.
 */
import { z } from 'zod'
import { parseInstant } from '../values/instant.ts'
import { PHASES } from '../values/phase.ts'
import type { ViolationType } from './error.ts'

/** Bounds of a request that are not the same everywhere and always; `pageMax` of a tier is its largest page, and the default. */
export interface MarketScope {
  providers: readonly string[]
  isCurrency: (code: string) => boolean
}

/** Reported by a custom check about its violation. */
export interface ViolationParams {
  type: ViolationType
  ctx?: Record<string, unknown>
}

/** Options of a custom check: the violation that it reports. */
export const violates = (type: ViolationType, message: string, ctx: Record<string, unknown> = {}) => ({
  message,
  params: { type, ctx } satisfies ViolationParams,
})

const INTEGER_FORM = /^[+-]?\d{1,15}$/
const NUMBER_FORM = /^[+-]?(\d{1,15}(\.\d{0,20})?|\.\d{1,20})([eE][+-]?\d{1,2})?$/

/** Parses a text by `read`; a text that it cannot parse is a violation of the given type. */
const reading =
  <T>(read: (text: string) => T | undefined, type: ViolationType, message: string) =>
  (value: unknown, context: z.RefinementCtx): T => {
    const parsed = typeof value === 'string' ? read(value) : undefined
    if (parsed !== undefined) return parsed
    context.addIssue({ code: 'custom', ...violates(type, message) })
    return z.NEVER
  }

const numberLike = (form: RegExp) => (text: string) => (form.test(text) ? Number(text) : undefined)

const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ['true', true],
  ['false', false],
])

/** An integer; the bounds are part of the API's description. */
export const integer = (bounds: { min?: number; max?: number } = {}) => {
  let number = z.int()
  if (bounds.min !== undefined) number = number.min(bounds.min)
  if (bounds.max !== undefined) number = number.max(bounds.max)
  const read = reading(numberLike(INTEGER_FORM), 'int_parsing', 'Input should be a whole number')
  return z.preprocess(read, number)
}

/** A whole number; one beyond its bounds is clamped to the nearer bound instead of being refused. */
const clamped = (bounds: { min: number; max: number; otherwise: number }) =>
  integer()
    .default(bounds.otherwise)
    .transform(value => Math.min(Math.max(value, bounds.min), bounds.max))

export const pageOffset = () =>
  integer({ min: 0 }).default(0).meta({ description: 'Entries to skip from the start.', example: 0 })

/** `limit` and `offset` of a list whose page size is clamped. */
export const clampedPage = (bounds: { max: number; otherwise: number }) => ({
  limit: clamped({ min: 1, ...bounds }).meta({
    description: `Entries of a page, clamped to 1 to ${bounds.max}; ${bounds.otherwise} when left out.`,
    example: bounds.otherwise,
  }),
  offset: pageOffset(),
})

export const decimal = (bounds: { min: number; max: number }) => {
  const read = reading(numberLike(NUMBER_FORM), 'float_parsing', 'Input should be a number')
  return z.preprocess(read, z.number().min(bounds.min).max(bounds.max))
}

/** `true` or `false`, in any case of its letters. */
export const boolean = () => {
  const read = reading(text => BOOLEANS.get(text.toLowerCase()), 'bool_parsing', 'Input should be true or false')
  return z.preprocess(read, z.boolean())
}

/** The parameters of a GET: its own, and `strict`. */
export const getQuery = (own: z.ZodObject = z.object({})) =>
  own.safeExtend({
    strict: boolean().optional().meta({
      description: 'True: a parameter that this operation does not know is a 422 that names the nearest one.',
      example: true,
    }),
  })

/** A member of a body that may be left out; null means the same as leaving it out. */
export const optional = <T extends z.ZodType>(one: T) => one.nullish().transform(value => value ?? undefined)

/** A member of a body that has a value where it is left out or null. */
export const defaulted = <T extends z.ZodType>(one: T, otherwise: z.output<T>) =>
  one.nullish().transform(value => value ?? otherwise)

export const namesChange = (body: object): boolean => Object.values(body).some(value => value !== undefined)

export const needsChange = violates('value_error', 'The body should name something to change')

/** A text that is not empty and contains neither a NUL nor a lone surrogate. */
export const text = (longest = 200) =>
  z
    .string()
    .min(1)
    .max(longest)
    .refine(value => !value.includes('\0'), violates('value_error', 'Text must not contain a NUL character'))
    .refine(value => value.isWellFormed(), violates('value_error', 'Text must not contain a lone surrogate'))

const UUID_FORM = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** A UUID of any version, converted to lower case. */
export const uuid = () =>
  z
    .string()
    .refine(value => UUID_FORM.test(value), violates('uuid_parsing', 'Input should be a UUID'))
    .transform(value => value.toLowerCase())
    .meta({ format: 'uuid' })

/** A list whose length is checked before its entries are: a refusal costs no more than its bound. */
export const list = <T extends z.ZodType>(one: T, { min = 0, max }: { min?: number; max: number }) => {
  const refuseLonger = (value: unknown, context: z.RefinementCtx): unknown => {
    if (!Array.isArray(value) || value.length <= max) return value
    const message = `List should have at most ${max} members`
    context.addIssue({ code: 'custom', ...violates('too_long', message, { max_length: max }) })
    return z.NEVER
  }
  return z.preprocess(refuseLonger, min > 0 ? z.array(one).min(min).max(max) : z.array(one).max(max))
}

/** Values of a list of provider keys, repeats included. */
const KEYS_MAX = 200

/** A repeatable parameter: one text or several. */
export const repeated = <T extends z.ZodType>(one: T) =>
  z.preprocess(value => (typeof value === 'string' ? [value] : value), list(one, { min: 1, max: KEYS_MAX }))

export const providerKey = (keys: readonly string[]) => z.enum(keys as readonly [string, ...string[]])

export const providersParameter = (keys: readonly string[]) =>
  repeated(providerKey(keys))
    .optional()
    .meta({ description: 'Provider keys, repeated once per key. All when left out.', example: EXAMPLE_PROVIDERS })

export const providersMember = (keys: readonly string[]) =>
  optional(list(providerKey(keys), { max: KEYS_MAX })).meta({
    description: 'Provider keys. All when left out.',
    example: EXAMPLE_PROVIDERS,
  })

const EXAMPLE_PROVIDERS = ['provider_02', 'provider_12']

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

/** A calendar day, YYYY-MM-DD. */
export const day = () =>
  z
    .string()
    .refine(
      value => /^\d{4}-\d\d-\d\d$/.test(value) && parseInstant(value) !== undefined,
      violates('date_from_datetime_parsing', 'Input should be a day, YYYY-MM-DD'),
    )
    .meta({ format: 'date' })

export const timeWindow = {
  start: time().optional().meta({
    description:
      'Inclusive start of the window: `YYYY-MM-DD`, `YYYY-MM-DDThh:mm:ss` or ISO 8601; UTC without an offset.',
    example: '2026-03-01',
  }),
  end: time().optional().meta({
    description: 'Exclusive end of the window, written as `start` is. Now when left out.',
    example: '2026-03-08',
  }),
}

/** Refuses a window that ends before it starts. */
export const needsOrder = {
  ...violates('value_error', 'end should be later than start'),
  path: ['end'],
  when: () => true,
}

/** Whether a window's bounds, where both are times, are in order. */
export function isOrdered({ start, end }: { start?: unknown; end?: unknown }): boolean {
  const [from, to] = [start, end].map(bound => parseInstant(String(bound)))
  return from === undefined || to === undefined || from < to
}

/** The position after the page before, as its answer gave it. */
export const pageCursor = (longest = 1000) =>
  text(longest).optional().meta({
    description: '`next_cursor` of the page before, sent with the same filters.',
    example: 'rO0ABXNyABFqYXZh',
  })

const DEFAULT_CURRENCY = 'USD'

const LISTED_CODE = 'a currency code that GET /fx lists'

/** The violation of a currency code that the FX table does not list. */
export const unlistedCurrency = violates('enum', `Input should be ${LISTED_CODE}`, { expected: LISTED_CODE })

export const currencyCode = (isKnown: (code: string) => boolean) => z.string().max(10).refine(isKnown, unlistedCurrency)

const CURRENCY_NOTE = { description: 'Code of the currency of amounts, one that `GET /v1/fx` lists.', example: 'EUR' }

export const currency = (isKnown: (code: string) => boolean) =>
  currencyCode(isKnown).default(DEFAULT_CURRENCY).meta(CURRENCY_NOTE)

export const currencyMember = (isKnown: (code: string) => boolean) =>
  optional(currencyCode(isKnown).default(DEFAULT_CURRENCY))
    .transform(code => code ?? DEFAULT_CURRENCY)
    .meta(CURRENCY_NOTE)

/** How names that come in are compared (DECISIONS.md, "Catalog"). */
export const NAME_NOTE = "Blanks and Unicode form may differ from the catalog's; case counts."

/** The parameters that select an item; `item_id` takes precedence over the two others. */
export const itemSelector = {
  item_id: integer({ min: 1 }).optional().meta({
    description: 'Catalog id of one item. Takes precedence over `market_hash_name` and `phase`.',
    example: 4940,
  }),
  market_hash_name: text()
    .optional()
    .meta({
      description: `Name of an item. ${NAME_NOTE} Without \`phase\` it means all phases of a phased finish.`,
      example: 'AK-47 | Redline (Field-Tested)',
    }),
  phase: phase().optional().meta({ description: 'Phase of a phased finish.', example: 'Ruby' }),
}

/** Refuses a request that names no item, also where other members are invalid. */
export const needsItem = {
  ...violates('missing', 'Field required: item_id or market_hash_name'),
  path: ['item_id'],
  when: () => true,
}

export const hasItem = (request: { item_id?: unknown; market_hash_name?: unknown }): boolean =>
  (request.item_id ?? request.market_hash_name) != null

/** The lengths of ids and names as they were sent, also where other members are invalid. */
export const selectionLengths = (request: { item_ids?: unknown; market_hash_names?: unknown }): [number, number] => {
  const lengthOf = (one: unknown): number => (Array.isArray(one) ? one.length : 0)
  return [lengthOf(request.item_ids), lengthOf(request.market_hash_names)]
}
