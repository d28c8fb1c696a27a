/**
 * Fills the board from the live view, so that following the log begins where the view ends and not at its start.
 *
 * Reads Redis (schemas/views/live-keys.ts; writer: streams/live-view). Invariant: a partition's rows are read in the
 * generation that its head names before and after; the position returned was taken before, so that the log from
 * there on holds what the rows miss. Rows are newer than the position at worst, which following from it corrects.
 *
 * Why not the book's changelog: it holds the same rows, but all of its partitions must be read for any one, and the
 * live view gives 1.5 million rows in 3 s by a script that joins an item's rows to one text.
 */
import type { Redis } from '#infra/redis/redis.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { decodeRow, headKey, itemKey, type LiveHead, listingKey } from '#schemas/views/live-keys.ts'
import type { Board } from './board.ts'

const SIDES: readonly Side[] = ['ask', 'bid']
const ITEMS_PER_CALL = 200
/** A rebuild changes the generation once. */
const ATTEMPTS = 5
const SEPARATOR = '\0'

const JOINED = `
local answer = {}
for i = 1, #KEYS do answer[i] = table.concat(redis.call('HGETALL', KEYS[i]), '\\0') end
return answer`

/** Reads every partition; the next offset of each, or undefined while a partition has no live view. */
export async function seedBoard(redis: Redis, prefix: string, board: Board): Promise<number[] | undefined> {
  const positions: number[] = []
  for (let partition = 0; partition < ITEM_PARTITIONS; partition++) {
    const next = await seedPartition(redis, prefix, board, partition)
    if (next === undefined) return undefined
    positions.push(next)
  }
  return positions
}

async function seedPartition(
  redis: Redis,
  prefix: string,
  board: Board,
  partition: number,
): Promise<number | undefined> {
  const headOf = async (): Promise<LiveHead | undefined> => {
    const text = await redis.get(headKey(partition, prefix))
    return text === null ? undefined : JSON.parse(text)
  }
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const head = await headOf()
    if (!head) return undefined
    for (const side of SIDES) await seedSide(redis, prefix, board, { partition, generation: head.generation, side })
    if ((await headOf())?.generation !== head.generation) continue
    for (const side of SIDES) {
      for (const [provider, at] of Object.entries(head[side])) board.refreshed(side, provider, partition, at)
    }
    return head.next
  }
  throw new Error(`the live view of partition ${partition} was rebuilt at every attempt to read it`)
}

async function seedSide(
  redis: Redis,
  prefix: string,
  board: Board,
  { partition, generation, side }: { partition: number; generation: number; side: Side },
): Promise<void> {
  const listings = board.sides[side].providers.map(key => listingKey(partition, generation, side, key, prefix))
  const itemIds = await redis.zunion(listings.length, ...listings)
  for (let from = 0; from < itemIds.length; from += ITEMS_PER_CALL) {
    const some = itemIds.slice(from, from + ITEMS_PER_CALL)
    const keys = some.map(id => itemKey(partition, generation, side, Number(id), prefix))
    const texts = (await redis.eval(JOINED, keys.length, ...keys)) as string[]
    for (const [i, text] of texts.entries()) {
      const parts = text === '' ? [] : text.split(SEPARATOR)
      for (let at = 0; at + 1 < parts.length; at += 2) {
        const { priceMicroUsd: microUsd, quantity, seenAt } = decodeRow(parts[at + 1] as string)
        board.set(side, parts[at] as string, Number(some[i]), { microUsd, quantity, seenAt })
      }
    }
  }
}
