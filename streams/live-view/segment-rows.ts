/**
 * Reads all rows of some providers from a partition's live table.
 *
 * Reads the keys of schemas/views/live-keys.ts in steps, each one script, so that Redis serves its readers in between.
 * Invariant: the pages together are one moment of the table only while its owner writes nothing; the caller makes it wait.
 */
import type { Redis } from '#infra/redis/redis.ts'
import { decodeRow, itemKey, type LiveRow, listingKey } from '#schemas/views/live-keys.ts'
import { readTouchedField } from '#schemas/views/snapshot.ts'
import type { TableId } from './table-writer.ts'

/** A page of rows as text: id, row, id, row... */
export type RowPage = string

/** Rows of a page, and so lines of a block; 1,000 of them hold Redis up for less than a millisecond. */
const PAGE_ROWS = 1_000
/** Rows that are asked for at once, between which Redis serves no other reader. */
const ROWS_AT_ONCE = 4_000
/** No row can hold it. */
const SEPARATOR = '\0'

const SCRIPT = `
local texts = {}
for i, id in ipairs(redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2])) do
  texts[2 * i - 1] = id
  texts[2 * i] = redis.call('HGET', ARGV[3] .. id, ARGV[4])
end
return table.concat(texts, '\\0')`

/** What one script is asked for. */
interface Question {
  field: string
  provider: string
  listing: string
  itemKeyStart: string
  from: number
  rows: number
}

/**
 * All rows of some providers by the field that names each, in the order of item ids; of one that lists nothing there is no page.
 *
 * Their owner waits meanwhile, so small providers share a round trip: one after the other, twenty took forty.
 */
export async function readRowPages(
  redis: Redis,
  table: TableId,
  fields: ReadonlySet<string>,
): Promise<Map<string, RowPage[]>> {
  const pages = new Map([...fields].map((field): [string, RowPage[]] => [field, []]))
  const questions = (await Promise.all([...fields].map(field => questionsOf(redis, table, field)))).flat()
  for (const portion of portionsOf(questions)) {
    const read = await Promise.all(
      portion.map(({ listing, from, rows, itemKeyStart, provider }) =>
        redis.eval(SCRIPT, 1, listing, from, from + rows - 1, itemKeyStart, provider),
      ),
    )
    for (const [i, { field }] of portion.entries()) pages.get(field)?.push(read[i] as RowPage)
  }
  return pages
}

async function questionsOf(
  redis: Redis,
  { partition, generation, prefix }: TableId,
  field: string,
): Promise<Question[]> {
  const { side, provider } = readTouchedField(field)
  const listing = listingKey(partition, generation, side, provider, prefix)
  const itemKeyStart = itemKey(partition, generation, side, 0, prefix).slice(0, -1)
  const count = await redis.zcard(listing)
  return Array.from({ length: Math.ceil(count / PAGE_ROWS) }, (_, page) => {
    const from = page * PAGE_ROWS
    return { field, provider, listing, itemKeyStart, from, rows: Math.min(PAGE_ROWS, count - from) }
  })
}

/** Questions of up to {@link ROWS_AT_ONCE} rows together, in their order. */
function* portionsOf(questions: readonly Question[]): Generator<Question[]> {
  let portion: Question[] = []
  let rows = 0
  for (const question of questions) {
    if (rows + question.rows > ROWS_AT_ONCE) {
      yield portion
      portion = []
      rows = 0
    }
    portion.push(question)
    rows += question.rows
  }
  if (portion.length > 0) yield portion
}

/** The rows of a page. */
export function* rowsOf(page: RowPage): Generator<{ itemId: number; row: LiveRow }> {
  const texts = page.split(SEPARATOR)
  for (let i = 0; i + 1 < texts.length; i += 2) {
    yield { itemId: Number(texts[i]), row: decodeRow(texts[i + 1] as string) }
  }
}
