/**
 * The one reader of the live view: rows of items, the broad listing, stored snapshots.
 *
 * What one partition contributes to an answer is its state at one moment; a view that is not there rejects and is never
 * an empty answer. Rows and heads are cached under the stamp at which they were read and used again only
 * while Redis confirms the stamp. A read rejects at once while the connection is being made again.
 */
import { corked, type Redis } from '#infra/redis/redis.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { ATTEMPTS, type ListingPage, type ListingState, readListingPage } from './reader-listing.ts'
import { bindLiveScripts, type Head, headOf, missing } from './reader-scripts.ts'
import { type ItemRows, type LiveEntry, lastUpdatedAt, liveEntryOf, openRowStore, type RowStore } from './row-store.ts'
import { openSnapshotReader } from './snapshot-reader.ts'
import { headKey, itemKey, PARTITIONS } from './table.ts'

export type { LiveEntry } from './row-store.ts'
export type { PinnedSegment, PinnedSnapshot } from './snapshot-reader.ts'
export { plainBytes, storedBytes } from './table.ts'

export type LiveReader = ReturnType<typeof openLiveReader>

/**
 * An item has 41 rows and one or two bodies, about 40 kB: 10,000 items stay below 400 MB. With 4,000 the requests for
 * 8,000 items were answered at 0.24 of bare Express, and at 0.60 with all of them kept.
 */
export const ITEMS_KEPT = 10_000
/** Answers may be this much older than their request: a fraction of the time that an observation takes to get here. */
const STALE_AFTER_MS = 5

interface WantedItem {
  side: Side
  itemId: number
}

interface ReadBatch {
  wanted: Map<string, WantedItem>
  answer: PromiseWithResolvers<ReadonlyMap<string, readonly LiveEntry[]>>
}

interface ViewState extends ListingState {
  redis: Redis
  batches: Map<number, ReadBatch>
  /** A batch has been sent and is not answered yet. */
  isReading: boolean
  store: RowStore
}

export function openLiveReader(
  redis: Redis,
  prefix: string,
  keysOf: Record<Side, readonly string[]>,
  itemsKept = ITEMS_KEPT,
) {
  const state: ViewState = {
    redis,
    batches: new Map(),
    isReading: false,
    scripts: bindLiveScripts(redis),
    prefix,
    keysOf,
    store: openRowStore(itemsKept),
    heads: [],
    seen: [],
    counted: { ask: [], bid: [] },
  }
  return {
    ...openSnapshotReader(redis, prefix),
    /**
     * The rows of items; per item in the order of the providers' keys. For a single item it is the same array for as long as
     * nothing in it has changed, so an answer that was made of it may be kept with it. What was read a moment ago comes at once.
     */
    ofItems: (side: Side, itemIds: readonly number[]): readonly LiveEntry[] | Promise<readonly LiveEntry[]> =>
      justRead(state, side, itemIds) ?? readAllItems(state, side, itemIds),
    /** `limit` entries from `offset` of everything that some providers list. */
    async listing(side: Side, providers: readonly string[], offset: number, limit: number): Promise<ListingPage> {
      assertConnected(redis)
      return readListingPage(state, side, { providers, offset, limit })
    },
    /**
     * The rows of items in the order of their partitions, and the position in market.book-changes that they reflect exactly; rejects
     * where that is of another topic than the one of an id.
     */
    async pinItems(side: Side, itemIds: Iterable<number>, topicId: string) {
      assertConnected(redis)
      return pinItems(state, side, itemIds, topicId)
    },
  }
}

function assertConnected(redis: Redis): void {
  if (redis.status !== 'ready') throw new Error('Redis does not answer')
}

async function pinItems(state: ViewState, side: Side, itemIds: Iterable<number>, topicId: string) {
  const byPartition = Map.groupBy(itemIds, partitionOfItem)
  const read = await Promise.all(
    PARTITIONS.map(partition => {
      const items = (byPartition.get(partition) ?? []).map(itemId => ({ side, itemId }))
      return readItems(state, partition, new Map(items.map(item => [nameOf(side, item.itemId), item])))
    }),
  )
  if (read.some(({ head }) => head.topicId !== topicId)) throw new Error('the live view is of another topic')
  return {
    entries: read.flatMap(({ entries }) => [...entries.values()].flat()),
    next: read.map(({ head }) => head.next),
  }
}

async function readAllItems(state: ViewState, side: Side, itemIds: readonly number[]): Promise<readonly LiveEntry[]> {
  assertConnected(state.redis)
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
  if (performance.now() - seen.at > STALE_AFTER_MS) return undefined
  const item = state.store.get(itemKey(partition, head.version, side, itemId, state.prefix))
  return item?.stamp === seen.stamp ? entriesOf({ side, itemId }, item, head) : undefined
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
  state.isReading = true
  const reads = corked(state.redis, () =>
    batches.map(([partition, { wanted, answer }]) =>
      readItems(state, partition, wanted).then(({ entries }) => answer.resolve(entries), answer.reject),
    ),
  )
  void Promise.all(reads).then(() => {
    state.isReading = false
    readBatches(state)
  })
}

async function readItems(
  state: ViewState,
  partition: number,
  wanted: ReadonlyMap<string, WantedItem>,
): Promise<{ head: Head; entries: ReadonlyMap<string, readonly LiveEntry[]> }> {
  const { scripts, prefix, store, heads } = state
  const items = [...wanted]
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const knownHead = heads[partition]
    const itemKeys = knownHead
      ? items.map(([, { side, itemId }]) => itemKey(partition, knownHead.version, side, itemId, prefix))
      : []
    const stored = itemKeys.map(key => store.get(key))
    const askedAt = performance.now()
    const answer = await scripts.items({
      headKey: headKey(partition, prefix),
      headStamp: knownHead?.stamp ?? '',
      itemKeys,
      itemStamps: stored.map(rows => rows?.stamp ?? ''),
    })
    if (answer === null) return missing(state, partition)
    const head = headOf(state, partition, knownHead, answer)
    state.seen[partition] = { stamp: answer.stamp, at: askedAt }
    if (!knownHead || head.version !== knownHead.version) continue
    const entries = new Map<string, readonly LiveEntry[]>()
    for (const [i, [name, item]] of items.entries()) {
      const text = answer.rows[i] ?? null
      const rows = text === null ? (stored[i] as ItemRows) : store.put(itemKeys[i] as string, answer.stamp, text)
      entries.set(name, entriesOf(item, rows, head))
    }
    return { head, entries }
  }
  throw new Error('the version changed at every attempt')
}

/** The entries of an item; those made before, where rows and refresh times are still the same. */
function entriesOf({ side, itemId }: WantedItem, item: ItemRows, head: Head): readonly LiveEntry[] {
  const before = item.made
  if (before?.head === head) return before.entries
  const isSame = before?.entries.every(entry => entry.lastUpdatedAt === lastUpdatedAt(side, entry.listed, head))
  const entries = before && isSame ? before.entries : item.rows.map(listed => liveEntryOf(side, itemId, listed, head))
  item.made = { entries, head }
  return entries
}
