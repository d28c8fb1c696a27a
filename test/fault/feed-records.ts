/**
 * What the log must look like when each feed has one writer at a time: whole refreshes, one after the other.
 *
 * Reads market.quotes and market.bids as they are committed, and nothing of the product's own
 * bookkeeping.
 */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { type ReadRecord, readTopic } from '#test/harness/read-topic.ts'

interface FeedRecords {
  /** Feed (`<topic> <provider>`) → times of its completed refreshes, in the order of the log. */
  completed: Map<string, number[]>
  /** Refreshes that were begun and not completed before another began. */
  cut: number
  /** A sentence for each record that a single writer would not have written there. */
  faults: string[]
}

export async function readFeedRecords(kafka: KafkaConnection): Promise<FeedRecords> {
  const found: FeedRecords = { completed: new Map(), cut: 0, faults: [] }
  for (const topic of ['quotes', 'bids'] as const) {
    for (const [provider, records] of Map.groupBy(await readTopic(kafka, topic), ({ key }) => key))
      addFeed(`${topic} ${provider}`, records, found)
  }
  return found
}

function addFeed(feed: string, records: readonly ReadRecord[], found: FeedRecords): void {
  const times: number[] = []
  found.completed.set(feed, times)
  let open: { id: string; next: number } | undefined
  for (const { event, value } of records) {
    const what = `${feed} ${event} ${value.refresh_id} ${value.index ?? value.count ?? value.reason}`
    if (event === 'RefreshFailed') open = undefined
    else if (event === 'RefreshCompleted') {
      const isWhole = value.count === 0 || (open?.id === value.refresh_id && open?.next === value.count)
      if (!isWhole) found.faults.push(`${what} after ${open?.next} of ${open?.id}`)
      if (value.observed_at <= (times.at(-1) ?? 0)) found.faults.push(`${what} is not newer than ${times.at(-1)}`)
      times.push(value.observed_at)
      open = undefined
    } else if (value.index === 0) {
      if (open) found.cut += 1
      open = { id: value.refresh_id, next: 1 }
    } else if (open !== undefined && open.id === value.refresh_id && open.next === value.index) open.next += 1
    else found.faults.push(`${what} after ${open?.next} of ${open?.id}`)
  }
  if (open) found.cut += 1
}
