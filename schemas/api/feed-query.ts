/** Rules: DECISIONS.md, "Feeds". Filter values count as sent; unknown ids and names pass and match nothing. */
import { z } from 'zod'
import { boolean, integer, NAME_NOTE, providerKey, selectionLengths, time, violates } from './query-values.ts'

/** Values of `item_ids` and `market_hash_names` together, at most. */
export const FILTER_VALUES_MAX = 100

/** But for 0. */
const SPEED_MIN = 0.1
const SPEED_MAX = 10_000
const SPEED_FORM = /^\d{1,5}(\.\d{1,3})?x?$/

/** A repeatable parameter without a bound of its own. */
const many = <T extends z.ZodType>(one: T) =>
  z.preprocess(value => (typeof value === 'string' ? [value] : value), z.array(one).min(1))

const name = z
  .string()
  .min(1)
  .refine(value => !value.includes('\0'), violates('value_error', 'Text must not contain a NUL character'))

const filters = (providers: readonly string[]) => ({
  providers: many(providerKey(providers))
    .optional()
    .meta({
      description: 'Provider keys, repeated once per key. All providers when left out.',
      example: ['provider_02', 'provider_12'],
    }),
  item_ids: many(integer())
    .optional()
    .meta({
      maxItems: FILTER_VALUES_MAX,
      description:
        'Catalog ids, repeated once per id. An item streams when an id or a name names it; both together hold at most 100 values, repeats included.',
      example: [4940, 4941],
    }),
  market_hash_names: many(name)
    .optional()
    .meta({
      maxItems: FILTER_VALUES_MAX,
      description: `Names, repeated once per name. ${NAME_NOTE} A name covers every phase of a finish.`,
      example: ['AK-47 | Redline (Field-Tested)'],
    }),
})

const token = z.string().optional().meta({
  description:
    'A feed token of `POST /v1/feed/token`, for browsers that cannot send headers. It is one stream, which it opens again after a break.',
  example: 'XvN2v0rJ8nM1mPq3y5cT7bWdKfHsLzAeRgUiOpQxYtE',
})

const lastEventId = (also: string) =>
  z
    .string()
    .optional()
    .meta({
      description: `The \`Last-Event-ID\` of a new \`EventSource\`, which cannot send the header; the header wins. ${also}`,
      example: 'q0mB2kXo7d1xT9aGAhAMBwsFCQoIAgEGBAMODw0',
    })

/** Refuses filters that hold too many values, at the one that holds more. */
const within100 = (at: 'item_ids' | 'market_hash_names') => (query: object) => {
  const [ids, names] = selectionLengths(query)
  return ids + names <= FILTER_VALUES_MAX || (at === 'item_ids') !== ids >= names
}

const tooMany = (at: 'item_ids' | 'market_hash_names') => ({
  ...violates('too_long', `item_ids and market_hash_names take at most ${FILTER_VALUES_MAX} values together`, {
    max_length: FILTER_VALUES_MAX,
  }),
  path: [at],
  when: () => true,
})

const bounded = <Query extends z.ZodObject>(query: Query) =>
  query
    .refine(within100('item_ids'), tooMany('item_ids'))
    .refine(within100('market_hash_names'), tooMany('market_hash_names'))

/** Of all live feeds. */
const live = (providers: readonly string[]) => ({
  ...filters(providers),
  resume: boolean().optional().meta({
    description:
      'Beyond the specification: every event carries an id. The id of `ready` is the position at which the stream begins; a reconnect with `Last-Event-ID` resumes after that event.',
    example: true,
  }),
  last_event_id: lastEventId('An empty one is none.'),
  lastEventId: lastEventId('As a common polyfill writes it.').meta({ 'x-go-name': 'LastEventIdOfPolyfill' }),
  token,
})

export const salesFeedQuery = (providers: readonly string[]) => bounded(z.object(live(providers)))

export const feedQuery = (providers: readonly string[]) =>
  bounded(
    z.object({
      ...live(providers),
      snapshot: boolean().optional().meta({
        description: 'Beyond the specification: the current state comes first, ended by an event `snapshot.end`.',
        example: true,
      }),
      policy: z.enum(['conflate']).optional().meta({
        description:
          'Beyond the specification: a slow client is sent the latest state of each row instead of being disconnected.',
        example: 'conflate',
      }),
    }),
  ).refine(({ policy, resume }) => !(policy && resume), {
    ...violates(
      'value_error',
      'A stream that leaves changes out cannot be resumed: take policy=conflate or resume=true',
    ),
    path: ['policy'],
  })

export const replayQuery = (providers: readonly string[]) =>
  bounded(
    z.object({
      from: time().meta({
        description:
          'First moment, by `seen_at`: `YYYY-MM-DD`, `YYYY-MM-DDThh:mm:ss` or ISO 8601; UTC without an offset.',
        example: '2026-03-03',
      }),
      to: time().optional().meta({
        description: 'The moment after the last, written as `from` is. Now when left out.',
        example: '2026-03-04',
      }),
      speed: z
        .string()
        .refine(
          speed => SPEED_FORM.test(speed),
          violates('float_parsing', 'Input should be a number such as 0, 1 or 10x'),
        )
        .refine(
          speed => !(Number.parseFloat(speed) > SPEED_MAX),
          violates('less_than_equal', `Input should be at most ${SPEED_MAX}`, { le: SPEED_MAX }),
        )
        .refine(
          speed => !(Number.parseFloat(speed) < SPEED_MIN && Number.parseFloat(speed) > 0),
          violates('greater_than_equal', `Input should be 0 or at least ${SPEED_MIN}`, { ge: SPEED_MIN }),
        )
        .optional()
        .meta({
          pattern: SPEED_FORM.source,
          description: 'Times the pace at which the changes were seen, 0.1 to 10000; 0: as fast as the client reads.',
          example: '10x',
        }),
      ...filters(providers),
      token,
    }),
  )

export type FeedQuery = z.infer<ReturnType<typeof feedQuery>>

export type ReplayQuery = z.infer<ReturnType<typeof replayQuery>>
