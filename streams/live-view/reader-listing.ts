/**
 * Reads pages of the broad listing of the live view, which goes by provider.
 *
 * Listing order: provider key, partition, item id. Counts and rows of a page are of one moment of each partition.
 */
import type { Side } from '#schemas/events/book-changed.ts'
import { headOf, type KnownHeads, type LiveScripts, missing } from './reader-scripts.ts'
import { type LiveEntry, liveEntryOf } from './row-store.ts'
import { decodeRow, headKey, itemKey, listingKey, PARTITIONS, SEPARATOR } from './table.ts'

export interface ListingPage {
  entries: readonly LiveEntry[]
  total: number
}

export interface ListingState extends KnownHeads {
  scripts: LiveScripts
  prefix: string
  keysOf: Record<Side, readonly string[]>
  counted: Record<Side, (Counts | undefined)[]>
}

interface Counts {
  stamp: string
  version: number
  byProvider: ReadonlyMap<string, number>
}

interface ListingRange {
  partition: number
  provider: string
  start: number
  stop: number
}

/** Tries for a version that stays: a rebuild changes it once. */
export const ATTEMPTS = 4
/**
 * Tries for counts and rows of one moment. Partitions are flushed some 20 times a second and a page takes about
 * 2 ms, so one try in three fails at worst; the last takes the rows as they are, since a page that a busy
 * market keeps from being exact is of more use than none.
 */
const PAGE_ATTEMPTS = 8

export async function readListingPage(
  state: ListingState,
  side: Side,
  page: { providers: readonly string[]; offset: number; limit: number },
): Promise<ListingPage> {
  for (let attempt = 1; attempt <= PAGE_ATTEMPTS; attempt++) {
    const counts = await Promise.all(PARTITIONS.map(partition => countsOf(state, side, partition)))
    const { ranges, total } = locate(counts, page.providers, page.offset, page.limit)
    const read = ranges.map(range =>
      readRange(state, side, range, counts[range.partition] as Counts, attempt === PAGE_ATTEMPTS),
    )
    const pages = await Promise.all(read)
    if (!pages.includes(undefined)) return { entries: pages.flat() as LiveEntry[], total }
  }
  throw new Error('the listing moved at every attempt')
}

async function countsOf(state: ListingState, side: Side, partition: number): Promise<Counts> {
  const { scripts, prefix, heads, counted } = state
  const providers = state.keysOf[side]
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const knownHead = heads[partition]
    const before = counted[side][partition]
    const answer = await scripts.counts({
      headKey: headKey(partition, prefix),
      headStamp: knownHead?.stamp ?? '',
      listingKeys: providers.map(provider => listingKey(partition, knownHead?.version ?? 0, side, provider, prefix)),
      countStamp: before?.stamp ?? '',
    })
    if (answer === null) return missing(state, partition)
    const { version, stamp } = headOf(state, partition, knownHead, answer)
    if (version !== knownHead?.version) continue
    if (answer.counts === null) return before as Counts
    const { counts } = answer
    const fresh = { stamp, version, byProvider: new Map(providers.map((key, i) => [key, counts[i] ?? 0])) }
    counted[side][partition] = fresh
    return fresh
  }
  throw new Error('the version changed at every attempt')
}

/** Undefined when the partition has moved on since it was counted, or at least to another version. */
async function readRange(
  state: ListingState,
  side: Side,
  range: ListingRange,
  counts: Counts,
  mayHaveMoved: boolean,
): Promise<LiveEntry[] | undefined> {
  const { scripts, prefix, heads } = state
  const { partition, provider, start, stop } = range
  const knownHead = heads[partition]
  const answer = await scripts.page({
    headKey: headKey(partition, prefix),
    headStamp: knownHead?.stamp ?? '',
    listingKey: listingKey(partition, counts.version, side, provider, prefix),
    start,
    stop,
    itemKeyPrefix: itemKey(partition, counts.version, side, 0, prefix).slice(0, -1),
    provider,
  })
  if (answer === null) return missing(state, partition)
  const head = headOf(state, partition, knownHead, answer)
  if (mayHaveMoved ? head.version !== counts.version : head.stamp !== counts.stamp) return undefined
  const parts = answer.rows === '' ? [] : answer.rows.split(SEPARATOR)
  const entries: LiveEntry[] = []
  for (let i = 0; i + 1 < parts.length; i += 2) {
    entries.push(liveEntryOf(side, Number(parts[i]), provider, decodeRow(parts[i + 1] as string), head))
  }
  return entries
}

function locate(
  counts: readonly Counts[],
  providers: readonly string[],
  offset: number,
  limit: number,
): { ranges: ListingRange[]; total: number } {
  const ranges: ListingRange[] = []
  const end = offset + limit
  let at = 0
  for (const provider of providers) {
    for (const partition of PARTITIONS) {
      const count = counts[partition]?.byProvider.get(provider) ?? 0
      const [start, stop] = [Math.max(offset - at, 0), Math.min(end - at, count) - 1]
      if (stop >= start) ranges.push({ partition, provider, start, stop })
      at += count
    }
  }
  return { ranges, total: at }
}
