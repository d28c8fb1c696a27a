/**
 * Reads all rows of one provider from a partition's live table.
 *
 * Reads the keys of schemas/views/live-keys.ts in steps, each one script, so that Redis serves its readers in between.
 * Invariant: the pages together are one moment of the table only while its owner writes nothing; holding
 * the owner back is the caller's part.
 */
import type { Redis } from '#infra/redis/redis.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { decodeRow, itemKey, type LiveRow, listingKey } from '#schemas/views/live-keys.ts'
import type { TablePlace } from './table-writer.ts'

/** A page of rows as text: id, row, id, row... */
export type RowPage = string

/** Rows of a page, and so lines of a block; 1,000 of them hold Redis up for less than a millisecond. */
const PAGE_ROWS = 1_000
/** No row can hold it. */
const SEPARATOR = '\0'

const SCRIPT = `
local texts = {}
for i, id in ipairs(redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2])) do
  texts[2 * i - 1] = id
  texts[2 * i] = redis.call('HGET', ARGV[3] .. id, ARGV[4])
end
return table.concat(texts, '\\0')`

/** All rows of a provider in the order of item ids; empty when it lists nothing. */
export async function readRowPages(redis: Redis, place: TablePlace, side: Side, provider: string): Promise<RowPage[]> {
  const { partition, generation, prefix } = place
  const listing = listingKey(partition, generation, side, provider, prefix)
  const itemKeyStart = itemKey(partition, generation, side, 0, prefix).slice(0, -1)
  const pages: RowPage[] = []
  const count = await redis.zcard(listing)
  for (let from = 0; from < count; from += PAGE_ROWS) {
    const to = from + PAGE_ROWS - 1
    pages.push((await redis.eval(SCRIPT, 1, listing, from, to, itemKeyStart, provider)) as RowPage)
  }
  return pages
}

/** The rows of a page. */
export function* rowsOf(page: RowPage): Generator<{ itemId: number; row: LiveRow }> {
  const texts = page.split(SEPARATOR)
  for (let i = 0; i + 1 < texts.length; i += 2) {
    yield { itemId: Number(texts[i]), row: decodeRow(texts[i + 1] as string) }
  }
}
