/**
 * How the types of replies are written down, and what many replies share.
 *
 * Keys that end with `?` may be absent, types that end with `?` may be null, and so may what is under `?`.
 */

/** A type by name, a list of one shape, members by name, or under `*` any names. */
export type Shape = string | readonly [Shape] | { readonly [member: string]: Shape }

/** The shape of a reply, or what a reply has that is no JSON. */
export type ReplyShape = Shape | 'no body' | 'CSV'

/** The phase of an item. */
export const PHASE = 'one of Phase 1, Phase 2, Phase 3, Phase 4, Ruby, Sapphire, Black Pearl, Emerald?'

/** What names an item. */
export const NAMED = { item_id: 'int', market_hash_name: 'str', phase: PHASE }

/** Pagination by offset. */
export const OFFSET = { limit: 'count', offset: 'int', total: 'int', has_next: 'bool', has_prev: 'bool' }

/** Pagination by cursor. */
export const CURSOR = { ...OFFSET, offset: 'is 0', total: 'is -1', next_cursor: 'str?' }

/** Numbers that may be null. */
export const figures = (...names: string[]): Record<string, Shape> =>
  Object.fromEntries(names.map(name => [name, 'num?']))

/** The body of every error. */
export const ERROR: Shape = { code: 'error code', detail: 'str' }

/** The body of a 422 of validation. */
export const VALIDATION_ERROR: Shape = {
  code: 'is VALIDATION_ERROR',
  detail: [
    {
      type: 'one of missing, enum, int_parsing, float_parsing, bool_parsing, string_type, string_too_short, string_too_long, too_short, too_long, greater_than, greater_than_equal, less_than, less_than_equal, uuid_parsing, date_from_datetime_parsing, datetime_parsing, url_parsing, extra_forbidden, value_error',
      loc: ['step'],
      msg: 'str',
      input: 'anything',
      ctx: { '*': 'anything' },
    },
  ],
}
