/** The book's topics beside what the reference fold asks for: one ledger for each thing that the book writes. */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { BookRowStored } from '#schemas/events/book-state.ts'
import { ITEM_PARTITIONS, PROVIDER_PARTITIONS, type TopicKey, topics } from '#schemas/topics.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import type { JavaReader } from '#test/harness/java-reader.ts'
import { type Ledger, type LedgerEntry, openLedger } from '#test/harness/ledger.ts'
import { arriving, givenOf, isUsable, type PublishedRefresh, urlOf } from '#test/harness/published-records.ts'
import { entriesOfReading, type ReadRecord, readByJava, readTopic } from '#test/harness/read-topic.ts'
import { bookKey, type Expected, entryOfChange, foldRefreshes } from '#test/harness/reference-fold.ts'

/** Holds all that the book wrote against the refreshes that it was given. */
export async function bookLedgers(
  kafka: KafkaConnection,
  refreshes: readonly PublishedRefresh[],
  java?: JavaReader,
): Promise<Record<string, Ledger>> {
  const expected = foldRefreshes(refreshes.map(givenOf))
  const changes = await readTopic(kafka, 'bookChanges')
  const changelog = await readTopic(kafka, 'book')
  const rejects = rejectsOf(refreshes)
  const ledgers: Record<string, Ledger> = {
    'changes and markers by partition': openLedger(expectedSequence(expected), changes.map(sequenceEntry)),
    'sources of changes': openLedger(...sourcesOnce(changes)),
    verdicts: openLedger(verdictsOf(refreshes, expected), await verdictsRead(kafka)),
    quarantine: openLedger(quarantined(expected.verdicts), quarantined(await valuesOf(kafka, 'quarantine'))),
    'final book': openLedger(expectedRows(expected), rowsOf(changelog)),
    unresolved: openLedger(rejects.unresolved, await rejectsRead(kafka, 'unresolved')),
    'dead letters': openLedger(rejects.letters, await rejectsRead(kafka, 'deadLetters')),
  }
  if (java === undefined) return ledgers
  const truth = await readByJava(java, kafka, 'bookChanges')
  const truthOfBook = await readByJava(java, kafka, 'book')
  ledgers['changes read by the Java client'] = openLedger(truth.entries, entriesOfReading(changes))
  ledgers['changelog read by the Java client'] = openLedger(truthOfBook.entries, entriesOfReading(changelog))
  console.log(`      ${truth.aborted + truthOfBook.aborted} records of transactions that a kill cut short`)
  return ledgers
}

const valuesOf = async (kafka: KafkaConnection, topic: TopicKey) =>
  (await readTopic(kafka, topic)).map(({ value }) => value)

const urlText = (provider: string, itemId: number, price: number | null): string =>
  price === null ? 'null' : String(urlOf(provider, itemId))

/** A refresh's changes by ascending item, then its marker: in every partition, for each provider. */
function expectedSequence(expected: Expected): LedgerEntry[] {
  const byRefresh = Map.groupBy(
    expected.changes,
    change => `${bookKey(change.side, change.provider)}|${change.refresh_id}`,
  )
  return expected.verdicts
    .filter(({ verdict }) => verdict === 'applied')
    .flatMap(({ side, provider, refresh_id }) => {
      const key = bookKey(side, provider)
      const entries = (byRefresh.get(`${key}|${refresh_id}`) ?? []).map(change => ({
        key: `${partitionOfItem(change.item_id)}|${key}`,
        what: `${entryOfChange(change).what} ${change.item_id} ${urlText(provider, change.item_id, change.price)}`,
      }))
      for (let partition = 0; partition < ITEM_PARTITIONS; partition++) {
        entries.push({ key: `${partition}|${key}`, what: `marked ${refresh_id}` })
      }
      return entries
    })
}

function sequenceEntry({ partition, event, value }: ReadRecord): LedgerEntry {
  const key = `${partition}|${bookKey(value.side, value.provider)}`
  if (event === 'RefreshMarked') return { key, what: `marked ${value.refresh_id}` }
  return { key, what: `${entryOfChange(value).what} ${value.item_id} ${value.url}` }
}

/** Every change names a source record and index of its own, and is in the partition of its item. */
function sourcesOnce(changes: readonly ReadRecord[]): [LedgerEntry[], LedgerEntry[]] {
  const sources = changes
    .filter(({ event }) => event === 'BookChanged')
    .map(({ partition, value }) => ({
      key: `${value.side}|${value.source_partition}`,
      what: `${value.source_offset}.${value.source_index}`,
      isInPartition: partition === partitionOfItem(value.item_id),
    }))
  const distinct = new Map(sources.map(entry => [`${entry.key} ${entry.what}`, entry]))
  return [[...distinct.values()].filter(({ isInPartition }) => isInPartition), sources]
}

const verdictsRead = async (kafka: KafkaConnection): Promise<LedgerEntry[]> =>
  (await valuesOf(kafka, 'refreshes')).map(value => {
    const { side, provider, refresh_id, verdict, reason, added, updated, removed, unresolved, rejected } = value
    const numbers = [added, updated, removed, unresolved, rejected].join(' ')
    return { key: bookKey(side, provider), what: `${refresh_id} ${verdict} ${reason} ${numbers}` }
  })

/** All of the topic's records, which have no verdict, are of refreshes that were quarantined. */
const quarantined = (refreshes: readonly (Omit<Expected['verdicts'][number], 'verdict'> & { verdict?: string })[]) =>
  refreshes
    .filter(({ verdict = 'quarantined' }) => verdict === 'quarantined')
    .map(({ side, provider, refresh_id, reason }) => ({
      key: bookKey(side, provider),
      what: `${refresh_id} ${reason}`,
    }))

const rowText = ({ price, currency, price_micro_usd, quantity, seen_at }: Omit<BookRowStored, 'url'>): string =>
  [price, currency, price_micro_usd, quantity, seen_at].join(' ')

function expectedRows({ books }: Expected): LedgerEntry[] {
  return [...books].flatMap(([key, rows]) =>
    [...rows].map(([itemId, row]) => ({ key: `${key}|${itemId}`, what: rowText(row) })),
  )
}

function rowsOf(changelog: readonly ReadRecord[]): LedgerEntry[] {
  const rows = new Map<string, BookRowStored>()
  for (const { partition, key, value } of changelog) {
    const [kind, provider, itemId] = key.split('|')
    if (kind !== 'row') continue
    const row = `${partition < PROVIDER_PARTITIONS ? 'ask' : 'bid'}|${provider}|${itemId}`
    if (value === undefined) rows.delete(row)
    else rows.set(row, value)
  }
  return [...rows].map(([key, row]) => ({ key, what: rowText(row) }))
}

async function rejectsRead(kafka: KafkaConnection, topic: 'unresolved' | 'deadLetters'): Promise<LedgerEntry[]> {
  return (await valuesOf(kafka, topic)).map(rejected => {
    const { value } = kafka.codec.decode(rejected.value)
    const index = topic === 'unresolved' ? '' : `${value.index} `
    const key = bookKey(rejected.topic === topics.quotes.name ? 'ask' : 'bid', value.provider)
    return { key, what: `${value.refresh_id} ${index}${value.market_hash_name}` }
  })
}

/** The unresolved names and dead letters that the book must write of the refreshes, one entry a record. */
function rejectsOf(refreshes: readonly PublishedRefresh[]) {
  const unresolved: LedgerEntry[] = []
  const letters: LedgerEntry[] = []
  for (const refresh of refreshes) {
    const key = bookKey(refresh.side, refresh.provider)
    for (const { entry, index } of arriving(refresh)) {
      const what = `${refresh.refreshId} ${index} ${entry.name}`
      if (!isUsable(entry, refresh)) letters.push({ key, what })
      else if (entry.itemId === undefined) unresolved.push({ key, what: `${refresh.refreshId} ${entry.name}` })
    }
  }
  return { unresolved, letters }
}

function verdictsOf(refreshes: readonly PublishedRefresh[], expected: Expected): LedgerEntry[] {
  const counts = new Map<string, { added: number; updated: number; removed: number }>()
  for (const { side, provider, refresh_id, change } of expected.changes) {
    const key = `${bookKey(side, provider)}|${refresh_id}`
    const count = counts.get(key) ?? { added: 0, updated: 0, removed: 0 }
    counts.set(key, count)
    count[change] += 1
  }
  return refreshes.flatMap((refresh, at) => {
    const { side, provider, refreshId, ending } = refresh
    const key = bookKey(side, provider)
    if (ending === 'cut') return []
    if (ending === 'failed') return [{ key, what: `null failed ${refresh.failure ?? 'timeout'} 0 0 0 0 0` }]
    const { verdict, reason } = expected.verdicts[at] ?? { verdict: undefined, reason: undefined }
    const changed = verdict === 'applied' ? counts.get(`${key}|${refreshId}`) : undefined
    const { added = 0, updated = 0, removed = 0 } = changed ?? {}
    const { unresolved, letters } = rejectsOf([refresh])
    const numbers = [added, updated, removed, unresolved.length, letters.length].join(' ')
    return [{ key, what: `${refreshId} ${verdict} ${reason} ${numbers}` }]
  })
}
