/**
 * Keeps the catalog in memory from its two compacted topics.
 *
 * Read once per process and shared by its roles. Invariant: lookups answer from one whole version (catalog-index.ts); an
 * item never disappears, since ids are never reused.
 */
import type { CatalogReader, TopicIds } from '#infra/runtime/role.ts'
import type { CatalogItemPublished } from '#schemas/events/catalog-item-published.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { openCatalogIndex } from './catalog-index.ts'
import { type Decoded, UnknownEvent } from './codec.ts'
import type { KafkaConnection } from './connection.ts'
import { follow } from './follower.ts'
import type { LogRecord } from './range-reader.ts'

interface CatalogOptions {
  ids?: TopicIds
  /** Called when the catalog can no longer be followed; that is logged when left out. */
  onLost?(error: Error): void
}

/** Reads the catalog to its end and follows it. Rejects when the log holds none. */
export async function openCatalogReader(
  kafka: KafkaConnection,
  { ids, onLost = error => kafka.log.error({ error }, 'the catalog can no longer be followed') }: CatalogOptions = {},
): Promise<CatalogReader> {
  const index = openCatalogIndex()
  const shared = openSharing()
  const stop = new AbortController()
  const followed: Promise<unknown>[] = []
  /** Follows a topic from its start; resolves once it has been read to its end. */
  const read = async (topic: 'catalog' | 'provisionalItems', take: (events: Decoded[]) => void): Promise<void> => {
    const following = await follow(kafka, topic, {
      from: 'start',
      signal: stop.signal,
      waitMs: 1_000,
      ids,
      onRecords: async records => take(await decoded(kafka, records)),
    })
    // Until it has caught up, what ends it is the caller's to report.
    followed.push(following.closed.catch(() => undefined))
    await following.caughtUp.catch(error => {
      stop.abort()
      throw error
    })
    following.closed.catch(onLost)
  }
  await read('catalog', events => {
    for (const { event, value } of events) {
      if (event === 'CatalogVersionPublished') index.complete(value.version)
      else if (event === 'CatalogItemPublished') index.add(shared(value))
    }
  })
  if (index.current().version === '') {
    stop.abort()
    throw new Error('the log holds no catalog: run the set-up step (`marketlog run` does) first')
  }
  index.adopt()
  await read('provisionalItems', events => index.addProvisional(events.map(({ value }) => shared(value))))
  return {
    items: () => index.current().items,
    byId: itemId => index.current().byId(itemId),
    idOf: (name, phase) => index.current().idOf(name, phase),
    idsOfName: name => index.current().idsOfName(name),
    version: () => index.current().version,
    lookup: () => index.current(),
    async close() {
      stop.abort()
      await Promise.all(followed)
    },
  }
}

/** An event of a newer version adds to the catalog and changes nothing of it, so it is passed over. */
async function decoded(kafka: KafkaConnection, records: readonly LogRecord[]): Promise<Decoded[]> {
  const events: Decoded[] = []
  for (const { value } of records) {
    if (value === null) continue
    try {
      events.push(kafka.codec.decode(value))
    } catch (error) {
      if (!(error instanceof UnknownEvent)) throw error
    }
  }
  return events
}

/**
 * Makes items that hold the texts and lists of others that are the same: as decoded, thirty thousand have each its own.
 *
 * Each column is written out: copies by spread took 0.3 s more of CPU in each process that starts.
 */
function openSharing(): (item: CatalogItemPublished) => CatalogItem {
  const texts = new Map<string, string>()
  const lists = new Map<string, readonly string[]>()
  const text = <T extends string | null>(one: T): T => {
    if (one === null) return one
    const same = texts.get(one)
    if (same !== undefined) return same as T
    texts.set(one, one)
    return one
  }
  const list = (some: readonly string[]): readonly string[] => {
    const key = some.join('\n')
    const same = lists.get(key) ?? some.map(text)
    lists.set(key, same)
    return same
  }
  return item => {
    const shared: CatalogItem = {
      item_id: item.item_id,
      market_hash_name: item.market_hash_name,
      phase: text(item.phase),
      item_type: text(item.item_type),
      item_subtype: text(item.item_subtype),
      weapon_type: text(item.weapon_type),
      base_name: text(item.base_name),
      skin_name: text(item.skin_name),
      wear_name: text(item.wear_name),
      def_index: text(item.def_index),
      paint_index: item.paint_index,
      collection: text(item.collection),
      collection_image: text(item.collection_image),
      crates: list(item.crates),
      crates_images: list(item.crates_images),
      release_date: text(item.release_date),
      rarity_name: text(item.rarity_name),
      rarity_color: text(item.rarity_color),
      style_name: text(item.style_name),
      is_stattrak: item.is_stattrak,
      is_souvenir: item.is_souvenir,
      min_float: item.min_float,
      max_float: item.max_float,
      image_url: item.image_url,
    }
    if (item.supply !== null) shared.supply = item.supply
    return shared
  }
}
