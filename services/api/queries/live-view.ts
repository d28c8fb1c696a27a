/**
 * Reads live asks and bids: the rows of items, and the broad listing in stable order.
 *
 * Reads Redis (schemas/views/live-keys.ts; writer: streams/live-view). Invariant: what one partition
 * contributes to an answer is its state at one moment; a missing head is a 503, never an empty answer. Listing
 * order: provider key, partition, item id. Rows and heads are cached under the stamp at which they were read and
 * used again only while Redis confirms the stamp.
 */
import { HttpError } from '#infra/http/http-error.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { ErrorCode } from '#schemas/api/error.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { headKey, itemKey, type LiveHead, listingKey } from '#schemas/views/live-keys.ts'
import { type ItemRows, type ListedRow, type LiveEntry, listedRow, openRowStore, type RowStore } from './live-rows.ts'
import { bindLiveScripts, type LiveScripts, SEPARATOR, type Stamped } from './live-scripts.ts'

/** Part of a listing. */
export interface ListingPage {
  entries: readonly LiveEntry[]
  /** Entries of the whole listing. */
  total: number
}

/** The live view. */
export interface LiveView {
  /**
   * The rows of items; per item in the order of the providers' keys. For a single item it is the same array
   * for as long as nothing in it has changed, so an answer that was made of it may be kept with it. What was read a
   * moment ago comes at once.
   */
  ofItems(side: Side, itemIds: readonly number[]): readonly LiveEntry[] | Promise<readonly LiveEntry[]>
  /** `limit` entries from `offset` of everything that some providers list. */
  listing(side: Side, providers: readonly string[], offset: number, limit: number): Promise<ListingPage>
}

interface Head extends LiveHead {
  stamp: string
}

interface Counts {
  stamp: string
  generation: number
  byProvider: ReadonlyMap<string, number>
}

/** A range of one provider's items in one partition. */
interface Segment {
  partition: number
  provider: string
  start: number
  stop: number
}

const UNAVAILABLE: Record<Side, { code: ErrorCode; detail: string }> = {
  ask: { code: 'PRICES_INDEX_UNAVAILABLE', detail: 'The live price index is temporarily unavailable.' },
  bid: { code: 'BIDS_INDEX_UNAVAILABLE', detail: 'The live bids index is temporarily unavailable.' },
}

/**
 * An item has 41 rows and one or two bodies, about 40 kB: 10,000 items stay below 400 MB. With 4,000 the requests for
 * 8,000 items were answered at 0.24 of bare Express, and at 0.60 with all of them kept.
 */
export const ITEMS_KEPT = 10_000
/** Answers may be this much older than their request: a fraction of the time that an observation takes to get here. */
const STALE_AFTER_MS = 5
/**
 * A request that finds its partition's stamp older than this has all that are in use read again beside its own answer,
 * so that under load hardly any request waits for it.
 */
const REFRESH_AFTER_MS = 3
/** Tries for a generation that stays: a rebuild changes it once. */
const ATTEMPTS = 4
/**
 * Tries for counts and rows of one moment. Partitions are flushed some 20 times a second and a page takes about
 * 2 ms, so one try in three fails at worst; the last takes the rows as they are, since a page that a busy
 * market keeps from being exact is of more use than none.
 */
const PAGE_ATTEMPTS = 8
const PARTITIONS = Array.from({ length: ITEM_PARTITIONS }, (_, partition) => partition)

/** An item to read; its key in the answer of a batch is made of it. */
interface WantedItem {
  side: Side
  itemId: number
}

/** The items of a partition that are read in one call. */
interface ReadBatch {
  wanted: Map<string, WantedItem>
  answer: PromiseWithResolvers<ReadonlyMap<string, readonly LiveEntry[]>>
}

/** The stamp of a partition, and when the question was sent that it answers; monotonic. */
interface ReadStamp {
  stamp: string
  at: number
}

/** What reads share: the connection's scripts, and what was read before. */
interface ViewState {
  redis: Redis
  batches: Map<number, ReadBatch>
  /** Stamps are being read for requests to come. */
  isRefreshing: boolean
  /** A batch has been sent and is not answered yet. */
  isReading: boolean
  scripts: LiveScripts
  prefix: string
  keysOf: Record<Side, readonly string[]>
  store: RowStore
  heads: (Head | undefined)[]
  seen: (ReadStamp | undefined)[]
  counted: Record<Side, (Counts | undefined)[]>
}

/** Opens the live view of a namespace; `keysOf` are all provider keys of a side. */
export function openLiveView(redis: Redis, prefix: string, keysOf: Record<Side, readonly string[]>): LiveView {
  const state: ViewState = {
    redis,
    batches: new Map(),
    isRefreshing: false,
    isReading: false,
    scripts: bindLiveScripts(redis),
    prefix,
    keysOf,
    store: openRowStore(ITEMS_KEPT),
    heads: [],
    seen: [],
    counted: { ask: [], bid: [] },
  }
  /** While the client reconnects, requests get their 503 at once instead of waiting. */
  const guarded = async <T>(side: Side, read: () => Promise<T>): Promise<T> => {
    if (redis.status !== 'ready') throw unavailable(side)
    try {
      return await read()
    } catch (error) {
      throw error instanceof HttpError ? error : unavailable(side, error)
    }
  }
  return {
    ofItems: (side, itemIds) =>
      justRead(state, side, itemIds) ?? guarded(side, () => readAllItems(state, side, itemIds)),
    listing: (side, providers, offset, limit) =>
      guarded(side, () => readListingPage(state, side, { providers, offset, limit })),
  }
}

async function readAllItems(state: ViewState, side: Side, itemIds: readonly number[]): Promise<readonly LiveEntry[]> {
  const [only] = itemIds
  if (only !== undefined && itemIds.length === 1) {
    const item = { side, itemId: only }
    return (await coalesce(state, partitionOfItem(only), [item])).get(nameOf(side, only)) ?? []
  }
  const byPartition = Map.groupBy(itemIds, partitionOfItem)
  const read = await Promise.all(
    [...byPartition].map(async ([partition, ids]) => {
      const answer = await coalesce(
        state,
        partition,
        ids.map(itemId => ({ side, itemId })),
      )
      return ids.flatMap(itemId => answer.get(nameOf(side, itemId)) ?? [])
    }),
  )
  return read.flat()
}

/**
 * The entries of a single item whose partition has the stamp under which the item was read, as of a moment ago. So Redis
 * is asked once in {@link STALE_AFTER_MS} and partition for all items at rest, not once for each request.
 */
function justRead(state: ViewState, side: Side, itemIds: readonly number[]): readonly LiveEntry[] | undefined {
  const [itemId] = itemIds
  if (itemId === undefined || itemIds.length > 1 || state.redis.status !== 'ready') return undefined
  const partition = partitionOfItem(itemId)
  const [seen, head] = [state.seen[partition], state.heads[partition]]
  if (!seen || head?.stamp !== seen.stamp) return undefined
  const ageMs = performance.now() - seen.at
  if (ageMs > STALE_AFTER_MS) return undefined
  if (ageMs > REFRESH_AFTER_MS) refreshStamps(state)
  const kept = state.store.get(itemKey(partition, head.generation, side, itemId, state.prefix))
  return kept?.stamp === seen.stamp ? entriesOf({ side, itemId }, kept, head) : undefined
}

/** Reads the stamps of partitions in use, in one batch; a stamp that cannot be read is left to the next request. */
function refreshStamps(state: ViewState): void {
  if (state.isRefreshing) return
  state.isRefreshing = true
  const since = performance.now() - STALE_AFTER_MS
  const inUse = PARTITIONS.filter(partition => (state.seen[partition]?.at ?? since) > since)
  void Promise.allSettled(inUse.map(partition => coalesce(state, partition, []))).then(() => {
    state.isRefreshing = false
  })
}

const nameOf = (side: Side, itemId: number): string => `${side}${itemId}`

/**
 * Coalesces reads of items: one call per partition, and one write to the socket for all. A batch collects until the one
 * before it is answered. A write of its own cost each request 17 us, more than anything else that it did.
 */
function coalesce(
  state: ViewState,
  partition: number,
  items: readonly WantedItem[],
): Promise<ReadonlyMap<string, readonly LiveEntry[]>> {
  const { batches } = state
  if (batches.size === 0 && !state.isReading) setImmediate(() => readBatches(state))
  let batch = batches.get(partition)
  if (!batch) {
    batch = { wanted: new Map(), answer: Promise.withResolvers() }
    batches.set(partition, batch)
  }
  for (const item of items) batch.wanted.set(nameOf(item.side, item.itemId), item)
  return batch.answer.promise
}

function readBatches(state: ViewState): void {
  const batches = [...state.batches]
  state.batches.clear()
  if (batches.length === 0) return
  const { stream } = state.redis
  state.isReading = true
  stream?.cork()
  const reads = batches.map(([partition, { wanted, answer }]) =>
    readItems(state, partition, wanted).then(answer.resolve, answer.reject),
  )
  stream?.uncork()
  void Promise.all(reads).then(() => {
    state.isReading = false
    readBatches(state)
  })
}

/** Reads items of one partition; again when a rebuild has changed the generation meanwhile. */
async function readItems(
  state: ViewState,
  partition: number,
  wanted: ReadonlyMap<string, WantedItem>,
): Promise<ReadonlyMap<string, readonly LiveEntry[]>> {
  const { scripts, prefix, store, heads } = state
  const items = [...wanted]
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const held = heads[partition]
    const itemKeys = held
      ? items.map(([, { side, itemId }]) => itemKey(partition, held.generation, side, itemId, prefix))
      : []
    const stored = itemKeys.map(key => store.get(key))
    const askedAt = performance.now()
    const answer = await scripts.items({
      headKey: headKey(partition, prefix),
      headStamp: held?.stamp ?? '',
      itemKeys,
      itemStamps: stored.map(rows => rows?.stamp ?? ''),
    })
    if (answer === null) return missing(state, partition)
    const head = headOf(state, partition, held, answer)
    state.seen[partition] = { stamp: answer.stamp, at: askedAt }
    if (!held || head.generation !== held.generation) continue
    return new Map(
      items.map(([name, item], i) => {
        const text = answer.rows[i] ?? null
        const rows = text === null ? (stored[i] as ItemRows) : store.put(itemKeys[i] as string, answer.stamp, text)
        return [name, entriesOf(item, rows, head)]
      }),
    )
  }
  throw new Error('the generation changed at every attempt')
}

/** The entries of an item; those made before, where rows and refresh times are still the same. */
function entriesOf({ side, itemId }: WantedItem, item: ItemRows, head: Head): readonly LiveEntry[] {
  const before = item.made
  if (before?.head === head) return before.entries
  const isSame = before?.entries.every(entry => entry.lastUpdatedAt === lastUpdatedAt(side, entry.listed, head))
  const entries = before && isSame ? before.entries : item.rows.map(listed => entryOf(side, itemId, listed, head))
  item.made = { entries, head }
  return entries
}

async function readListingPage(
  state: ViewState,
  side: Side,
  page: { providers: readonly string[]; offset: number; limit: number },
): Promise<ListingPage> {
  for (let attempt = 1; attempt <= PAGE_ATTEMPTS; attempt++) {
    const counts = await Promise.all(PARTITIONS.map(partition => countsOf(state, side, partition)))
    const { segments, total } = locate(counts, page.providers, page.offset, page.limit)
    const read = segments.map(segment =>
      readSegment(state, side, segment, counts[segment.partition] as Counts, attempt === PAGE_ATTEMPTS),
    )
    const pages = await Promise.all(read)
    if (!pages.includes(undefined)) return { entries: pages.flat() as LiveEntry[], total }
  }
  throw unavailable(side)
}

async function countsOf(state: ViewState, side: Side, partition: number): Promise<Counts> {
  const { scripts, prefix, heads, counted } = state
  const providers = state.keysOf[side]
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const held = heads[partition]
    const before = counted[side][partition]
    const answer = await scripts.counts({
      headKey: headKey(partition, prefix),
      headStamp: held?.stamp ?? '',
      listingKeys: providers.map(provider => listingKey(partition, held?.generation ?? 0, side, provider, prefix)),
      countStamp: before?.stamp ?? '',
    })
    if (answer === null) return missing(state, partition)
    const { generation, stamp } = headOf(state, partition, held, answer)
    if (generation !== held?.generation) continue
    if (answer.counts === null) return before as Counts
    const { counts } = answer
    const fresh = { stamp, generation, byProvider: new Map(providers.map((key, i) => [key, counts[i] ?? 0])) }
    counted[side][partition] = fresh
    return fresh
  }
  throw new Error('the generation changed at every attempt')
}

/** Undefined when the partition has moved on since it was counted, or at least to another generation. */
async function readSegment(
  state: ViewState,
  side: Side,
  segment: Segment,
  counts: Counts,
  mayHaveMoved: boolean,
): Promise<LiveEntry[] | undefined> {
  const { scripts, prefix, heads } = state
  const { partition, provider, start, stop } = segment
  const held = heads[partition]
  const answer = await scripts.page({
    headKey: headKey(partition, prefix),
    headStamp: held?.stamp ?? '',
    listingKey: listingKey(partition, counts.generation, side, provider, prefix),
    start,
    stop,
    itemKeyPrefix: itemKey(partition, counts.generation, side, 0, prefix).slice(0, -1),
    provider,
  })
  if (answer === null) return missing(state, partition)
  const head = headOf(state, partition, held, answer)
  if (mayHaveMoved ? head.generation !== counts.generation : head.stamp !== counts.stamp) return undefined
  const parts = answer.rows === '' ? [] : answer.rows.split(SEPARATOR)
  const entries: LiveEntry[] = []
  for (let i = 0; i + 1 < parts.length; i += 2) {
    entries.push(entryOf(side, Number(parts[i]), listedRow(provider, parts[i + 1] as string), head))
  }
  return entries
}

/** The head that an answer reflects: the one in the answer, or the cached one whose stamp is current. */
function headOf({ heads }: ViewState, partition: number, held: Head | undefined, answer: Stamped): Head {
  const newest = heads[partition]
  if (newest?.stamp === answer.stamp) return newest
  if (answer.head === null) return held as Head
  const head: Head = { ...(JSON.parse(answer.head) as LiveHead), stamp: answer.stamp }
  heads[partition] = head
  return head
}

function missing({ heads, seen }: ViewState, partition: number): never {
  heads[partition] = undefined
  seen[partition] = undefined
  throw new Error(`partition ${partition} has no live view`)
}

const unavailable = (side: Side, cause?: unknown): HttpError =>
  new HttpError(UNAVAILABLE[side].code, UNAVAILABLE[side].detail, { cause })

function entryOf(side: Side, itemId: number, listed: ListedRow, head: LiveHead): LiveEntry {
  return { itemId, listed, lastUpdatedAt: lastUpdatedAt(side, listed, head) }
}

const lastUpdatedAt = (side: Side, listed: ListedRow, head: LiveHead): number =>
  Math.max(listed.row.seenAt, head[side][listed.provider] ?? 0)

/** The parts of a page: which ranges of which listings, in listing order. */
function locate(
  counts: readonly Counts[],
  providers: readonly string[],
  offset: number,
  limit: number,
): { segments: Segment[]; total: number } {
  const segments: Segment[] = []
  const end = offset + limit
  let at = 0
  for (const provider of providers) {
    for (const partition of PARTITIONS) {
      const count = counts[partition]?.byProvider.get(provider) ?? 0
      const [start, stop] = [Math.max(offset - at, 0), Math.min(end - at, count) - 1]
      if (stop >= start) segments.push({ partition, provider, start, stop })
      at += count
    }
  }
  return { segments, total: at }
}
