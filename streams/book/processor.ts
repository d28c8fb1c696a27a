/**
 * The book of one input partition as the runner drives it: the pure step, its effects as records, its changelog read back.
 *
 * Encodes the effects of the step and picks the partitions; reads and writes nothing itself. Invariant: a processor restored from
 * the records of all former batches, and given the input from its open refresh on again, goes on exactly as the one that emitted
 * them.
 */
import type { Codec } from '#infra/kafka/codec.ts'
import type { Outgoing } from '#infra/kafka/publisher.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { bookChanged, offerUrlChanged, refreshMarked, type Side } from '#schemas/events/book-changed.ts'
import { type RefreshJudged, refreshJudged, refreshQuarantined } from '#schemas/events/refresh-judged.ts'
import { ITEM_PARTITIONS, type TopicKey, topics } from '#schemas/topics.ts'
import type { CatalogLookup } from '#schemas/values/catalog-item.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import type { PartitionProcessor } from '#streams/runner/exactly-once-runner.ts'
import type { RowChanges } from './apply.ts'
import { loadChangelog, refreshRecord, rowRecord, withdrawnRecord } from './changelog.ts'
import { type Books, bookOf, openFrom, replayOpenRefresh, step } from './step.ts'

type Emit = (record: Outgoing & { partition: number }) => void

export function openBook(
  codec: Codec,
  topic: TopicKey,
  changelog: number,
  lookup: () => CatalogLookup,
  note: NoteVerdict,
): PartitionProcessor {
  const side: Side = topic === 'bids' ? 'bid' : 'ask'
  const books: Books = new Map()
  return {
    loadChangelog: (key, value) => loadChangelog(books, side, key, value),
    openFrom: () => openFrom(books),
    replayOpenRefresh: record => replayOpenRefresh(books, side, record, lookup()),
    step(record, emit) {
      const decision = step(books, side, record, lookup())
      const { outcome, marked, quarantined, judged } = decision
      emitRows(codec, changelog, decision, emit)
      if (marked) {
        const record = { key: `refresh|${marked.provider}`, value: codec.encode(refreshMarked, marked) }
        for (let to = 0; to < ITEM_PARTITIONS; to++) emit({ topic: 'bookChanges', partition: to, ...record })
      }
      if (quarantined) {
        const encoded = codec.encode(refreshQuarantined, { ...quarantined, source_topic: topics[topic].name })
        emit({ topic: 'quarantine', partition: 0, key: quarantined.provider, value: encoded })
      }
      if (judged) {
        note(judged)
        emit({ topic: 'refreshes', partition: 0, key: judged.provider, value: codec.encode(refreshJudged, judged) })
        emit(refreshRecord(codec, changelog, bookOf(books, side, judged.provider)))
      }
      return outcome
    },
  }
}

function emitRows(codec: Codec, changelog: number, { changes, urlChanges }: RowChanges, emit: Emit): void {
  for (const change of changes) {
    emit(recordOf(change, codec.encode(bookChanged, change)))
    emit(rowRecord(codec, changelog, change))
    if (change.change === 'removed' && change.refresh_id === null) emit(withdrawnRecord(codec, changelog, change))
  }
  for (const change of urlChanges) {
    emit(recordOf(change, codec.encode(offerUrlChanged, change)))
    emit(rowRecord(codec, changelog, change))
  }
}

const recordOf = ({ item_id }: { item_id: number }, value: Buffer): Outgoing & { partition: number } => ({
  topic: 'bookChanges',
  partition: partitionOfItem(item_id),
  key: String(item_id),
  value,
})

type NoteVerdict = (judged: RefreshJudged) => void

/**
 * Opens the meter of a process: a counter per provider, side and verdict, and a log line for each refresh that was not
 * applied. A batch that is tried again counts again: the topic market.refreshes has each verdict once.
 */
export function openVerdictMeter(metrics: Metrics, log: Log): NoteVerdict {
  const refreshes = metrics.counter('marketlog_refreshes_judged_total', 'Refreshes by verdict.', [
    'side',
    'provider',
    'verdict',
  ])
  return ({ side, provider, verdict, reason, refresh_id, unique_items }) => {
    refreshes.inc({ side, provider, verdict })
    if (verdict === 'applied') return
    log.warn({ side, provider, verdict, reason, refresh_id, unique_items }, 'a refresh was not applied')
  }
}
