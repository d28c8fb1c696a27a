/**
 * Reads what a subscriber asks for from its URL, or lists everything that is wrong with it.
 *
 * Rules: DECISIONS.md, "Feeds". Filter values count as sent, repeats included; unknown ids and names pass and match
 * nothing; unknown parameters are ignored.
 */
import type { Violation } from '#schemas/api/error.ts'
import { FILTER_VALUES_MAX } from '#schemas/api/feed-query.ts'
import { readBoolean } from '#schemas/api/query-values.ts'
import { shownInput } from '#schemas/api/shown-input.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import type { Subscription } from './hub.ts'

/** A subscription with what its `ready` event holds. */
export interface FeedRequest {
  subscription: Subscription
  /** The providers asked for; undefined when none was named. */
  providers: readonly string[] | undefined
  itemIdsCount: number
  namesCount: number
  /** Beyond the specification, all off unless asked for. */
  options: FeedOptions
}

/** What a subscriber asks for beyond the specification. */
interface FeedOptions {
  /** Events carry ids, and `Last-Event-ID` resumes after one. */
  resume: boolean
  /** The current state comes first. */
  snapshot: boolean
  /** A slow client gets the latest of each row instead of its end. */
  conflate: boolean
}

const INTEGER_FORM = /^[+-]?\d{1,15}$/

/** Reads the query string of a feed (without `?`); undefined when its percent-encoding cannot be decoded. */
export function parseFeedQuery(
  side: Side,
  query: string,
  providerKeys: readonly string[],
): FeedRequest | Violation[] | undefined {
  const values = valuesOf(query)
  if (values === undefined) return undefined
  const { providers, item_ids: ids, market_hash_names: names } = values
  const violations = [
    ...providers.flatMap((key, at) => checkProvider(key, at, providerKeys)),
    ...ids.flatMap(checkItemId),
    ...names.flatMap(checkName),
    ...checkCount(ids.length, names.length),
    ...['resume', 'snapshot'].flatMap(name => checkFlag(name, values[name as 'resume' | 'snapshot'])),
    ...checkPolicy(values.policy, values.resume),
  ]
  if (violations.length > 0) return violations
  return {
    subscription: {
      side,
      providers: providers.length === 0 ? undefined : new Set(providers),
      itemIds: new Set(ids.map(Number)),
      names: new Set(names),
      isFiltered: ids.length + names.length > 0,
    },
    providers: providers.length === 0 ? undefined : [...new Set(providers)],
    itemIdsCount: ids.length,
    namesCount: names.length,
    options: {
      resume: isTrue(values.resume[0]),
      snapshot: isTrue(values.snapshot[0]),
      conflate: values.policy[0] === 'conflate',
    },
  }
}

/** The feed token of a query string; undefined when there is none that can be read. */
export const tokenOf = (query: string): string | undefined => /(?:^|&)token=([^&]*)/.exec(query)?.[1]

const NAMES = ['providers', 'item_ids', 'market_hash_names', 'resume', 'snapshot', 'policy'] as const

type FeedValues = Record<(typeof NAMES)[number], string[]>

function valuesOf(query: string): FeedValues | undefined {
  const values = Object.fromEntries(NAMES.map(name => [name, [] as string[]])) as FeedValues
  try {
    for (const part of query.split('&')) {
      const equals = part.indexOf('=')
      const name = decode(equals < 0 ? part : part.slice(0, equals))
      if (Object.hasOwn(values, name))
        values[name as keyof FeedValues].push(equals < 0 ? '' : decode(part.slice(equals + 1)))
    }
  } catch {
    return undefined
  }
  return values
}

/** Throws URIError on what is no percent-encoded UTF-8. */
const decode = (text: string): string => decodeURIComponent(text.replaceAll('+', ' '))

function checkProvider(input: string, at: number, keys: readonly string[]): Violation[] {
  if (keys.includes(input)) return []
  const quoted = keys.map(key => `'${key}'`)
  const expected = `${quoted.slice(0, -1).join(', ')} or ${quoted.at(-1)}`
  const msg = `Input should be ${expected}`
  return [{ type: 'enum', loc: ['query', 'providers', at], msg, input: shownInput(input), ctx: { expected } }]
}

function checkItemId(input: string, at: number): Violation[] {
  if (INTEGER_FORM.test(input)) return []
  const msg = 'Input should be a whole number'
  return [{ type: 'int_parsing', loc: ['query', 'item_ids', at], msg, input: shownInput(input), ctx: {} }]
}

function checkName(input: string, at: number): Violation[] {
  const loc = ['query', 'market_hash_names', at]
  if (input === '') {
    return [
      { type: 'string_too_short', loc, msg: 'Text should have at least 1 character(s)', input, ctx: { min_length: 1 } },
    ]
  }
  if (!input.includes('\0')) return []
  return [{ type: 'value_error', loc, msg: 'Text must not contain a NUL character', input, ctx: {} }]
}

function checkCount(ids: number, names: number): Violation[] {
  const count = ids + names
  if (count <= FILTER_VALUES_MAX) return []
  const msg = `item_ids and market_hash_names take at most ${FILTER_VALUES_MAX} values together, not ${count}`
  const loc = ['query', ids >= names ? 'item_ids' : 'market_hash_names']
  return [{ type: 'too_long', loc, msg, input: count, ctx: { max_length: FILTER_VALUES_MAX, actual_length: count } }]
}

const isTrue = (text: string | undefined): boolean => readBoolean(text ?? '') ?? false

function checkFlag(name: string, [input, ...more]: readonly string[]): Violation[] {
  const loc = ['query', name]
  if (more.length > 0) return [{ type: 'value_error', loc, msg: 'May be given once', input: [input, ...more], ctx: {} }]
  if (input === undefined || readBoolean(input) !== undefined) return []
  return [{ type: 'bool_parsing', loc, msg: 'Input should be true or false', input, ctx: {} }]
}

function checkPolicy([input, ...more]: readonly string[], resume: readonly string[]): Violation[] {
  const loc = ['query', 'policy']
  if (more.length > 0) return [{ type: 'value_error', loc, msg: 'May be given once', input: [input, ...more], ctx: {} }]
  if (input === undefined) return []
  const expected = "'conflate'"
  if (input !== 'conflate') return [{ type: 'enum', loc, msg: `Input should be ${expected}`, input, ctx: { expected } }]
  if (!isTrue(resume[0])) return []
  const msg = 'A stream that leaves changes out has no places to resume from: take policy=conflate or resume=true'
  return [{ type: 'value_error', loc, msg, input, ctx: {} }]
}
