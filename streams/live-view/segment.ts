/**
 * Makes a segment: a provider's rows as NDJSON lines, deflated in blocks.
 *
 * Rows are read in pages, each one script, so that Redis serves its readers in between; the pages together are one moment of
 * the table only while its owner writes nothing, which the caller sees to. A page is a block, and zlib works in the
 * thread pool. Lines are those of GET /prices and GET /bids in US dollars with every member that a streaming tier
 * may see; blocks share no history and end on a byte, so that they inflate one by one and joined are one deflate stream.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { promisify } from 'node:util'
import { constants, crc32, deflateRaw } from 'node:zlib'
import type { Redis } from '#infra/redis/redis.ts'
import type { EntryText } from '#schemas/api/entry-text.ts'
import { crc32Combine } from '#schemas/values/crc32.ts'
import { USD_RATE } from '#schemas/values/money.ts'
import {
  decodeRow,
  itemKey,
  type LiveRow,
  listingKey,
  readTouchedField,
  SEPARATOR,
  type SegmentEntry,
  type TableId,
} from './table.ts'

/** A segment that has no version yet. */
interface MadeSegment {
  entry: Omit<SegmentEntry, 'version'>
  bytes: Buffer
  /** Rows whose item the catalog does not know, which have no line. */
  leftOut: number
}

interface SegmentSource<P> {
  text: EntryText<P>
  provider: string
  /** When the provider was last refreshed. */
  refreshedAt: number
}

const US_DOLLARS = { code: 'USD', rate: USD_RATE }
/** Level 1 takes a third of the time of level 6 for a quarter more bytes. */
const DEFLATE = { level: 1, finishFlush: constants.Z_FULL_FLUSH, chunkSize: 64 * 1024 }

const deflate = promisify(deflateRaw) as (lines: Buffer, options: typeof DEFLATE) => Promise<Buffer>

/** Makes a provider's segment; without a line it is empty. */
export async function makeSegment<P>(source: SegmentSource<P>, pages: readonly RowPage[]): Promise<MadeSegment> {
  const blocks: [bytes: number, deflated: number][] = []
  const deflating: Promise<Buffer>[] = []
  const sum = { lines: 0, leftOut: 0, updated: 0, crc: 0 }
  for (const page of pages) {
    const lines = linesOf(source, page, sum)
    if (lines.length === 0) continue
    sum.crc = crc32Combine(sum.crc, crc32(lines), lines.length)
    blocks.push([lines.length, 0])
    deflating.push(deflate(lines, DEFLATE))
    // A page takes some milliseconds, and flushes wait for the event loop too.
    await nextTurn()
  }
  const deflated = await Promise.all(deflating)
  for (const [i, block] of blocks.entries()) block[1] = deflated[i]?.length ?? 0
  const { lines, crc, updated, leftOut } = sum
  return { entry: { lines, crc, updated, blocks }, bytes: Buffer.concat(deflated), leftOut }
}

function linesOf<P>(
  { text, provider, refreshedAt }: SegmentSource<P>,
  page: RowPage,
  sum: { lines: number; leftOut: number; updated: number },
): Buffer {
  let lines = ''
  for (const { itemId, row } of rowsOf(page)) {
    const opening = text.opening({ itemId, provider, row }, US_DOLLARS, 'entry with url')
    if (opening === undefined) {
      sum.leftOut += 1
      continue
    }
    const updated = Math.max(row.seenAt, refreshedAt)
    sum.updated = Math.max(sum.updated, updated)
    sum.lines += 1
    lines += `${opening}${text.closing(updated)}\n`
  }
  return Buffer.from(lines, 'latin1')
}

export type RowPage = string

/** Rows of a page, and so lines of a block; 1,000 of them hold Redis up for less than a millisecond. */
const PAGE_ROWS = 1_000
/** Rows that are asked for at once, between which Redis serves no other reader. */
const ROWS_AT_ONCE = 4_000

const SCRIPT = `
local texts = {}
for i, id in ipairs(redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2])) do
  texts[2 * i - 1] = id
  texts[2 * i] = redis.call('HGET', ARGV[3] .. id, ARGV[4])
end
return table.concat(texts, '\\0')`

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

async function questionsOf(redis: Redis, { partition, version, prefix }: TableId, field: string): Promise<Question[]> {
  const { side, provider } = readTouchedField(field)
  const listing = listingKey(partition, version, side, provider, prefix)
  const itemKeyStart = itemKey(partition, version, side, 0, prefix).slice(0, -1)
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

function* rowsOf(page: RowPage): Generator<{ itemId: number; row: LiveRow }> {
  const texts = page.split(SEPARATOR)
  for (let i = 0; i + 1 < texts.length; i += 2) {
    yield { itemId: Number(texts[i]), row: decodeRow(texts[i + 1] as string) }
  }
}
