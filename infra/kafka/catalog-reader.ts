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

/**
 * Reads the catalog to its end and follows it. Rejects when the log holds none. `onLost` is called when it can no longer be followed,
 * which is logged when left out.
 */
export async function openCatalogReader(
  kafka: KafkaConnection,
  {
    ids,
    onLost = error => kafka.log.error({ error }, 'the catalog can no longer be followed'),
  }: { ids?: TopicIds; onLost?(error: Error): void } = {},
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

/** Of each item another text: to look for an equal one is of no use. */
const UNIQUE_COLUMNS = new Set(['market_hash_name', 'image_url'])

/** Makes items that hold the texts and lists of others that are the same: as decoded, thirty thousand have each its own. */
function openSharing(): (item: CatalogItemPublished) => CatalogItem {
  const texts = new Map<string, string>()
  const lists = new Map<string, readonly unknown[]>()
  const shared = (value: unknown): unknown => {
    if (typeof value === 'string') {
      const text = texts.get(value) ?? value
      texts.set(value, text)
      return text
    }
    if (!Array.isArray(value)) return value
    const key = value.join('\n')
    const list = lists.get(key) ?? value.map(shared)
    lists.set(key, list)
    return list
  }
  return ({ supply, ...rest }) => {
    const item: Record<string, unknown> = supply === null ? rest : { ...rest, supply }
    // Columns are replaced, not added one by one: then each item would be a hash table of its own, five times as large.
    for (const column of Object.keys(item)) if (!UNIQUE_COLUMNS.has(column)) item[column] = shared(item[column])
    return item as unknown as CatalogItem
  }
}
