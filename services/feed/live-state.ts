/**
 * The current state that a stream with `snapshot=true` begins with, and the position in the log that it reflects.
 *
 * Reads Redis (schemas/views/live-keys.ts and snapshot.ts; writer: streams/live-view). Invariant: what a
 * partition contributes is its state at exactly the offset that the position names: a few items by their rows and the
 * head in one transaction, the whole market by the segments of one manifest, which stay for minutes after
 * they were replaced. A view that is not there throws; it is never an empty state.
 */
import { promisify } from 'node:util'
import { constants, inflateRaw } from 'node:zlib'
import type { Redis } from '#infra/redis/redis.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { toMinor, USD_RATE } from '#schemas/values/money.ts'
import { decodeRow, headKey, itemKey, type LiveHead } from '#schemas/views/live-keys.ts'
import { manifestKey, type SnapshotManifest, segmentKey } from '#schemas/views/snapshot.ts'
import { changedFrame, type ItemText } from './frames.ts'
import { EVENT_ITEMS_MAX, type Subscription } from './hub.ts'
import type { LogPosition } from './log-position.ts'

/** A state that does not change. */
export interface PinnedState {
  /** All changes before it are in the state, and no other. */
  position: LogPosition
  /** The state as events, made as they are taken. */
  events(): AsyncGenerator<{ frame: Buffer; items: number }, void, void>
}

/** The live view, for streams. */
export interface LiveState {
  /** Pins what a subscriber asks for; rejects when the view is not there. */
  pin(wanted: Subscription, providers: readonly string[]): Promise<PinnedState>
}

/** Where the view is stored. */
interface LiveStateOptions {
  redis: Redis
  prefix: string
  items(): readonly CatalogItem[]
  itemOf(itemId: number): CatalogItem | undefined
  itemText: ItemText
}

/** Tries for a generation that stays: a rebuild changes it once. */
const ATTEMPTS = 4
const PARTITIONS = Array.from({ length: ITEM_PARTITIONS }, (_, partition) => partition)
const inflate = promisify(inflateRaw)

/** A row of the state. */
interface StateRow {
  itemId: number
  price: number
  quantity: number
}

/** Opens the live view. */
export function openLiveState(options: LiveStateOptions): LiveState {
  return {
    async pin(wanted, providers) {
      // A connection that is being made again would let requests wait.
      if (options.redis.status !== 'ready') throw new Error('Redis does not answer')
      return wanted.isFiltered ? pinItems(options, wanted, new Set(providers)) : pinAll(options, wanted.side, providers)
    },
  }
}

/** The rows of a provider and when it was last refreshed, as events. */
function* eventsOf(
  { itemOf, itemText }: LiveStateOptions,
  listing: { side: Side; provider: string; seenAt: number; rows: readonly StateRow[] },
): Generator<{ frame: Buffer; items: number }, void, void> {
  const texts = listing.rows.flatMap(({ itemId, price, quantity }) => {
    const item = itemOf(itemId)
    return item ? [itemText(item, { price, quantity, change: 'added' })] : []
  })
  for (let from = 0; from < texts.length; from += EVENT_ITEMS_MAX) {
    const part = texts.slice(from, from + EVENT_ITEMS_MAX)
    yield { frame: changedFrame(listing.side, listing.provider, listing.seenAt, part), items: part.length }
  }
}

async function pinAll(options: LiveStateOptions, side: Side, providers: readonly string[]): Promise<PinnedState> {
  const { redis, prefix } = options
  const manifests = await Promise.all(PARTITIONS.map(partition => manifestOf(redis, partition, prefix)))
  return {
    position: { next: manifests.map(({ next }) => next), behind: new Map() },
    async *events() {
      for (const provider of providers) {
        for (const [partition, manifest] of manifests.entries()) {
          const entry = manifest[side][provider]
          if (!entry) continue
          const stored = await redis.getBuffer(segmentKey(partition, side, provider, entry.version, prefix))
          if (!stored) throw new Error('a segment of the pinned state is gone')
          // Segments end with a full flush, not with a final block.
          const text = (await inflate(stored, { finishFlush: constants.Z_SYNC_FLUSH })).toString()
          yield* eventsOf(options, { side, provider, seenAt: entry.updated, rows: rowsOf(side, text) })
        }
      }
    },
  }
}

async function manifestOf(redis: Redis, partition: number, prefix: string): Promise<SnapshotManifest> {
  const [head, text] = await redis.mget(headKey(partition, prefix), manifestKey(partition, prefix))
  if (!head || !text) throw new Error(`partition ${partition} has no live view`)
  const manifest = JSON.parse(text) as SnapshotManifest
  if ((JSON.parse(head) as LiveHead).generation === manifest.generation) return manifest
  throw new Error(`partition ${partition} has a live view without its snapshot`)
}

/** The lines of a segment: entries of schemas/api/listing.ts in US dollars. */
function rowsOf(side: Side, text: string): StateRow[] {
  return text
    .split('\n')
    .filter(Boolean)
    .map(line => {
      const entry = JSON.parse(line)
      return side === 'ask'
        ? { itemId: entry.item_id, price: entry.lowest_ask, quantity: entry.quantity }
        : { itemId: entry.item_id, price: entry.highest_bid, quantity: entry.num_bids }
    })
}

async function pinItems(
  options: LiveStateOptions,
  { side, itemIds, names }: Subscription,
  providers: ReadonlySet<string>,
): Promise<PinnedState> {
  const named = names.size === 0 ? [] : options.items().filter(item => names.has(item.market_hash_name))
  const ids = new Set([...itemIds, ...named.map(({ item_id }) => item_id)])
  const byPartition = Map.groupBy(ids, id => partitionOfItem(id))
  const read = await Promise.all(
    PARTITIONS.map(partition => readItems(options, { side, partition, ids: byPartition.get(partition) ?? [] })),
  )
  const listings = read.flatMap(({ head, rows }) =>
    [...Map.groupBy(rows, ({ provider }) => provider)]
      .filter(([provider]) => providers.has(provider))
      .map(([provider, own]) => {
        const seenAt = Math.max(head[side][provider] ?? 0, ...own.map(row => row.seenAt))
        return { side, provider, seenAt, rows: own }
      }),
  )
  return {
    position: { next: read.map(({ head }) => head.next), behind: new Map() },
    async *events() {
      for (const listing of listings) yield* eventsOf(options, listing)
    },
  }
}

/** The rows of some items of a partition, and the head that they belong to. */
async function readItems(
  { redis, prefix }: LiveStateOptions,
  { side, partition, ids }: { side: Side; partition: number; ids: readonly number[] },
): Promise<{ head: LiveHead; rows: (StateRow & { provider: string; seenAt: number })[] }> {
  let generation = 0
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const questions = redis.multi().get(headKey(partition, prefix))
    for (const id of ids) questions.hgetall(itemKey(partition, generation, side, id, prefix))
    const [[, text] = [], ...answers] = (await questions.exec()) ?? []
    if (typeof text !== 'string') throw new Error(`partition ${partition} has no live view`)
    const head = JSON.parse(text) as LiveHead
    if (head.generation !== generation) {
      generation = head.generation
      continue
    }
    const rows = answers.flatMap(([error, row], i) => {
      if (error) throw error
      return Object.entries(row as Record<string, string>).map(([provider, packed]) => {
        const { priceMicroUsd, quantity, seenAt } = decodeRow(packed)
        return { itemId: ids[i] as number, provider, price: toMinor(priceMicroUsd, USD_RATE), quantity, seenAt }
      })
    })
    return { head, rows }
  }
  throw new Error('the generation changed at every attempt')
}
