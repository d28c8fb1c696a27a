/**
 * Parameters of the feeds, for OpenAPI. Rules: DECISIONS.md, "Feeds".
 *
 * services/feed/feed-query.ts and replay.ts parse a connect without these schemas, so that they allocate only
 * what a stream keeps; test/contract/feed-openapi.test.ts checks that both accept and refuse the same requests.
 */
import { z } from 'zod'
import { boolean, integer, providerKey, time, violates } from './query-values.ts'

/** Values of `item_ids` and `market_hash_names` together, at most. */
export const FILTER_VALUES_MAX = 100

const SPEED_MAX = 10_000

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
      description:
        'Catalog ids, repeated once per id. An item streams when an id or a name names it; both together hold at most 100 values, repeats included.',
      example: [4940, 4941],
    }),
  market_hash_names: many(name)
    .optional()
    .meta({
      description: 'Exact names, repeated once per name. A name covers every phase of a finish.',
      example: ['AK-47 | Redline (Field-Tested)'],
    }),
})

const token = z.string().optional().meta({
  description: 'A feed token of `POST /v1/feed/token`, for browsers that cannot send headers. Good for one connect.',
  example: 'XvN2v0rJ8nM1mPq3y5cT7bWdKfHsLzAeRgUiOpQxYtE',
})

/** Refuses filters that hold too many values. */
const within100 = (query: { item_ids?: unknown[] | undefined; market_hash_names?: unknown[] | undefined }): boolean =>
  (query.item_ids?.length ?? 0) + (query.market_hash_names?.length ?? 0) <= FILTER_VALUES_MAX

const tooMany = violates('too_long', `item_ids and market_hash_names take at most ${FILTER_VALUES_MAX} values together`)

/** Parameters of GET /feed/prices and GET /feed/bids. */
export const feedQuery = (providers: readonly string[]) =>
  z
    .object({
      ...filters(providers),
      resume: boolean().optional().meta({
        description:
          'Beyond the specification: every event carries an id. The id of `ready` is the position at which the stream begins; a reconnect with `Last-Event-ID` resumes after that event.',
        example: true,
      }),
      snapshot: boolean().optional().meta({
        description: 'Beyond the specification: the current state comes first, ended by an event `snapshot.end`.',
        example: true,
      }),
      policy: z.enum(['conflate']).optional().meta({
        description:
          'Beyond the specification: a slow client is sent the latest state of each row instead of being disconnected.',
        example: 'conflate',
      }),
      token,
    })
    .refine(within100, tooMany)
    .refine(
      ({ policy, resume }) => !(policy && resume),
      violates('value_error', 'Take policy=conflate or resume=true, not both'),
    )

/** Parameters of GET /feed/replay/prices. */
export const replayQuery = (providers: readonly string[]) =>
  z
    .object({
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
        .regex(/^\d{1,5}(\.\d{1,3})?x?$/)
        .refine(speed => Number.parseFloat(speed) <= SPEED_MAX)
        .optional()
        .meta({
          description: 'Times the pace at which the changes were seen, at most 10000; 0: as fast as the client reads.',
          example: '10x',
        }),
      ...filters(providers),
      token,
    })
    .refine(within100, tooMany)
