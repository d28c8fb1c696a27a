/**
 * The reads of the live view, each one script that sees one moment of a partition.
 *
 * Rows, counts and head of one answer reflect the same offset; the stamp (version, next, and the initial of the head's next
 * member, which is another one where the table may not be read) identifies it, and what the caller already has under it is not sent again. All keys of a call share the partition's hash tag.
 *
 * Why scripts: [HGETALL, GET head] in a pipeline cost the client 42 to 54 us for 41 rows, since each of
 * 82 texts is parsed by itself; joined to one text it is 10 us, and 5 us when the stamp is current. MULTI
 * was slower still (72 us), autopipelining no faster (55 us).
 */
import type { Redis } from '#infra/redis/redis.ts'
import { isSetBack } from '#streams/runner/positions.ts'
import { type LiveHead, parseHead } from './table.ts'

/** The beginning of every answer. Null: the partition has no view. */
interface Stamped {
  stamp: string
  /** The head's text; null when the caller's stamp is current. */
  head: string | null
}

export type LiveScripts = ReturnType<typeof bindLiveScripts>

/** A call to one partition, by a caller that has its head of a stamp. */
interface StampedCall {
  headKey: string
  headStamp: string
}

const OPENING = `
local head = redis.call('GET', KEYS[1])
if not head then return {false} end
local next, member = string.match(head, '"next":(%d+),"(%l)')
local stamp = string.match(head, '"version":(%d+)') .. ':' .. next .. member
local answer = {stamp, ARGV[1] ~= stamp and head}
`

const ITEMS = `${OPENING}
for i = 2, #KEYS do
  answer[i + 1] = ARGV[i] ~= stamp and table.concat(redis.call('HGETALL', KEYS[i]), '\\0')
end
return answer`

const COUNTS = `${OPENING}
if ARGV[2] == stamp then return answer end
for i = 2, #KEYS do answer[i + 1] = redis.call('ZCARD', KEYS[i]) end
return answer`

const PAGE = `${OPENING}
local rows = {}
for i, id in ipairs(redis.call('ZRANGE', KEYS[2], ARGV[2], ARGV[3])) do
  rows[2 * i - 1] = id
  rows[2 * i] = redis.call('HGET', ARGV[4] .. id, ARGV[5]) or ''
end
answer[3] = table.concat(rows, '\\0')
return answer`

type Run = (keys: number, ...parts: (string | number)[]) => Promise<unknown[]>

export function bindLiveScripts(redis: Redis) {
  redis.defineCommand('liveItems', { lua: ITEMS })
  redis.defineCommand('liveCounts', { lua: COUNTS })
  redis.defineCommand('livePage', { lua: PAGE })
  const scripts = redis as unknown as { liveItems: Run; liveCounts: Run; livePage: Run }
  const run = async (
    name: keyof typeof scripts,
    keys: readonly string[],
    args: readonly (string | number)[],
  ): Promise<(Stamped & { rest: unknown[] }) | null> => {
    const [stamp, head, ...rest] = await scripts[name](keys.length, ...keys, ...args)
    return typeof stamp === 'string' ? { stamp, head: (head ?? null) as string | null, rest } : null
  }
  return {
    /** Per item key: provider, row, provider, row... joined; null when its stamp is current. */
    async items(call: StampedCall & { itemKeys: readonly string[]; itemStamps: readonly string[] }) {
      const { headKey, headStamp, itemKeys, itemStamps } = call
      const answer = await run('liveItems', [headKey, ...itemKeys], [headStamp, ...itemStamps])
      return answer && { ...answer, rows: itemKeys.map((_, i) => answer.rest[i] as string | null) }
    },
    /** Per listing key the number of its items; null when `countStamp` is current. */
    async counts(call: StampedCall & { listingKeys: readonly string[]; countStamp: string }) {
      const { headKey, headStamp, listingKeys, countStamp } = call
      const answer = await run('liveCounts', [headKey, ...listingKeys], [headStamp, countStamp])
      return answer && { ...answer, counts: answer.rest.length > 0 ? (answer.rest as number[]) : null }
    },
    /** Items `start` to `stop` (both included) of a provider's listing: id, row, id, row... joined; an item's hash has the prefix and its id. */
    async page(
      call: StampedCall & { listingKey: string; start: number; stop: number; itemKeyPrefix: string; provider: string },
    ) {
      const { headKey, headStamp, listingKey, start, stop, itemKeyPrefix, provider } = call
      const answer = await run('livePage', [headKey, listingKey], [headStamp, start, stop, itemKeyPrefix, provider])
      return answer && { ...answer, rows: answer.rest[0] as string }
    },
  }
}

export interface Head extends LiveHead {
  stamp: string
}

export interface KnownHeads {
  heads: (Head | undefined)[]
  /** The stamp of each partition, and when the question was sent that it answers; monotonic. */
  seen: ({ stamp: string; at: number } | undefined)[]
}

/** The head that an answer reflects: the one in the answer, or the cached one whose stamp is current. Throws where it was set back. */
export function headOf({ heads }: KnownHeads, partition: number, knownHead: Head | undefined, answer: Stamped): Head {
  const newest = heads[partition]
  if (newest?.stamp === answer.stamp) return newest
  if (answer.head === null) return knownHead as Head
  const head: Head = { ...parseHead(answer.head), stamp: answer.stamp }
  if (newest?.version === head.version && isSetBack(newest, head))
    throw new Error(`partition ${partition} is at ${head.next}, and was at ${newest.next}`)
  heads[partition] = head
  return head
}

export function missing({ heads, seen }: KnownHeads, partition: number): never {
  heads[partition] = undefined
  seen[partition] = undefined
  throw new Error(`partition ${partition} has no live view`)
}
