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
import PQueue from 'p-queue'
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

interface SegmentSource<P> {
  text: EntryText<P>
  provider: string
  refreshedAt: number
}

const US_DOLLARS = { code: 'USD', rate: USD_RATE }
/** Level 1 takes a third of the time of level 6 for a quarter more bytes. */
const DEFLATE = { level: 1, finishFlush: constants.Z_FULL_FLUSH, chunkSize: 64 * 1024 }

const deflate = promisify(deflateRaw) as (lines: Buffer, options: typeof DEFLATE) => Promise<Buffer>

/** Makes a provider's segment; without a line it is empty. A row whose item the catalog does not know has none. */
export async function makeSegment<P>(
  source: SegmentSource<P>,
  pages: readonly string[],
): Promise<{ entry: Omit<SegmentEntry, 'version'>; bytes: Buffer }> {
  const blocks: [bytes: number, deflated: number][] = []
  const deflating: Promise<Buffer>[] = []
  const sum = { lines: 0, updated: 0, crc: 0 }
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
  return { entry: { ...sum, blocks }, bytes: Buffer.concat(deflated) }
}

function linesOf<P>(
  { text, provider, refreshedAt }: SegmentSource<P>,
  page: string,
  sum: { lines: number; updated: number },
): Buffer {
  let lines = ''
  for (const { itemId, row } of rowsOf(page)) {
    const opening = text.opening({ itemId, provider, row }, US_DOLLARS, 'entry with url')
    if (opening === undefined) continue
    const updated = Math.max(row.seenAt, refreshedAt)
    sum.updated = Math.max(sum.updated, updated)
    sum.lines += 1
    lines += `${opening}${text.closing(updated)}\n`
  }
  return Buffer.from(lines, 'latin1')
}

/** Rows of a page, and so lines of a block; 1,000 of them hold Redis up for less than a millisecond. */
const PAGE_ROWS = 1_000
/** Pages that are asked for at once, between which Redis serves no other reader. */
const PAGES_AT_ONCE = 4

const SCRIPT = `
local texts = {}
for i, id in ipairs(redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2])) do
  texts[2 * i - 1] = id
  texts[2 * i] = redis.call('HGET', ARGV[3] .. id, ARGV[4])
end
return table.concat(texts, '\\0')`

/**
 * All rows of some providers by the field that names each, in the order of item ids; of one that lists nothing there is no page.
 *
 * Their owner waits meanwhile, so some pages are read at once: one after the other, twenty small providers took forty round trips.
 */
export async function readRowPages(
  redis: Redis,
  { partition, version, prefix }: TableId,
  fields: ReadonlySet<string>,
): Promise<Map<string, string[]>> {
  const queue = new PQueue({ concurrency: PAGES_AT_ONCE })
  const readField = async (field: string): Promise<[string, string[]]> => {
    const { side, provider } = readTouchedField(field)
    const listing = listingKey(partition, version, side, provider, prefix)
    const itemKeyStart = itemKey(partition, version, side, 0, prefix).slice(0, -1)
    const count = await redis.zcard(listing)
    const pages = Array.from({ length: Math.ceil(count / PAGE_ROWS) }, (_, page) =>
      queue.add(() =>
        redis.eval(SCRIPT, 1, listing, page * PAGE_ROWS, (page + 1) * PAGE_ROWS - 1, itemKeyStart, provider),
      ),
    )
    return [field, (await Promise.all(pages)) as string[]]
  }
  return new Map(await Promise.all([...fields].map(readField)))
}

function* rowsOf(page: string): Generator<{ itemId: number; row: LiveRow }> {
  const texts = page.split(SEPARATOR)
  for (let i = 0; i + 1 < texts.length; i += 2) {
    yield { itemId: Number(texts[i]), row: decodeRow(texts[i + 1] as string) }
  }
}
