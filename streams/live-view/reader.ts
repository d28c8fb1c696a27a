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
import { type ItemRows, type LiveItem, liveEntryOf, openRowStore, type RowStore } from './row-store.ts'
import { openSnapshotReader } from './snapshot-reader.ts'
import { headKey, itemKey, PARTITIONS } from './table.ts'

export type { LiveEntry, LiveItem } from './row-store.ts'
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
  /** Is not kept, since it is one of very many: a portfolio of 10,000 items would push out all that is asked for again and again. */
  isPassing?: boolean
}

interface ViewState extends ListingState {
  redis: Redis
  batches: Map<number, { wanted: Map<string, WantedItem>; answer: PromiseWithResolvers<ReadonlyMap<string, LiveItem>> }>
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
    /** Items in the given order, their entries in the order of the providers' keys. What was read a moment ago comes at once. */
    ofItems: async (side: Side, itemIds: readonly number[], isPassing = false): Promise<readonly LiveItem[]> =>
      justRead(state, side, itemIds) ?? readAllItems(state, side, itemIds, isPassing),
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
    entries: read.flatMap(({ items }) => [...items.values()].flatMap(({ entries }) => entries)),
    next: read.map(({ head }) => head.next),
  }
}

async function readAllItems(
  state: ViewState,
  side: Side,
  itemIds: readonly number[],
  isPassing: boolean,
): Promise<readonly LiveItem[]> {
  assertConnected(state.redis)
  const byPartition = Map.groupBy(itemIds, partitionOfItem)
  const read = await Promise.all(
    [...byPartition].map(async ([partition, ids]) => {
      const wanted = ids.map(itemId => ({ side, itemId, isPassing }))
      return [partition, await coalesce(state, partition, wanted)] as const
    }),
  )
  const answers = new Map(read)
  return itemIds.map(itemId => answers.get(partitionOfItem(itemId))?.get(nameOf(side, itemId)) as LiveItem)
}

/**
 * A single item whose partition has the stamp under which the item was read, as of a moment ago. So Redis
 * is asked once in {@link STALE_AFTER_MS} and partition for all items at rest, not once for each request.
 */
function justRead(state: ViewState, side: Side, itemIds: readonly number[]): readonly LiveItem[] | undefined {
  const [itemId] = itemIds
  if (itemId === undefined || itemIds.length > 1 || state.redis.status !== 'ready') return undefined
  const partition = partitionOfItem(itemId)
  const [seen, head] = [state.seen[partition], state.heads[partition]]
  if (!seen || head?.stamp !== seen.stamp) return undefined
  if (performance.now() - seen.at > STALE_AFTER_MS) return undefined
  const item = state.store.get(itemKey(partition, head.version, side, itemId, state.prefix))
  return item?.stamp === seen.stamp ? [liveItemOf({ side, itemId }, item, head)] : undefined
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
): Promise<ReadonlyMap<string, LiveItem>> {
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
      readItems(state, partition, wanted).then(({ items }) => answer.resolve(items), answer.reject),
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
): Promise<{ head: Head; items: ReadonlyMap<string, LiveItem> }> {
  const { scripts, prefix, store, heads } = state
  const named = [...wanted]
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const knownHead = heads[partition]
    const itemKeys = knownHead
      ? named.map(([, { side, itemId }]) => itemKey(partition, knownHead.version, side, itemId, prefix))
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
    const items = new Map<string, LiveItem>()
    for (const [i, [name, item]] of named.entries()) {
      const text = answer.rows[i] ?? null
      const rows =
        text === null ? (stored[i] as ItemRows) : store.put(itemKeys[i] as string, answer.stamp, text, item.isPassing)
      items.set(name, liveItemOf(item, rows, head))
    }
    return { head, items }
  }
  throw new Error('the version changed at every attempt')
}

/** An item as of a head: the one that was read before, where rows and refresh times are still the same. */
function liveItemOf({ side, itemId }: WantedItem, stored: ItemRows, head: Head): LiveItem {
  const before = stored.read
  if (before?.head === head) return before.item
  const entries = stored.rows.map(([provider, row]) => liveEntryOf(side, itemId, provider, row, head))
  const isSame = before?.item.entries.every((entry, at) => entry.lastUpdatedAt === entries[at]?.lastUpdatedAt)
  const item = before && isSame ? before.item : { itemId, entries, answers: new Map<string, Buffer>() }
  stored.read = { item, head }
  return item
}
