/**
 * The summaries in the log: what was published last, and what of a new one differs.
 *
 * Reads and writes market.summaries, whose only writer this role is. An item whose figures are the same bytes as before is
 * not written again; the marker that ends a summary always is. Invariant: what is remembered is what the log
 * holds, so a start that reads the log again goes on as if it had never stopped.
 */
import { DecodeError } from '#infra/kafka/codec.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Outgoing, Publisher } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { type ItemSummarised, itemSummarised, marketSummarised } from '#schemas/events/market-summary.ts'
import { topics } from '#schemas/topics.ts'
import type { Instant } from '#schemas/values/instant.ts'

/** The summaries of the log. */
export interface SummaryLog {
  /** The last whole summary as the log has it; undefined when there is none, or when it was cut short. */
  restored: { asOf: Instant; items: ItemSummarised[] } | undefined
  /** Publishes what differs; resolves with the number of items written when the log holds it. */
  publish(asOf: Instant, items: readonly ItemSummarised[]): Promise<number>
}

const TOPIC = 'summaries'
const MARKER_KEY = 'summary'
const PORTION = 5_000

/** Reads the log to its end. */
export async function openSummaryLog(kafka: KafkaConnection, publisher: Publisher): Promise<SummaryLog> {
  await kafka.codec.prepare([...topics[TOPIC].events])
  const { known, restored } = await readLog(kafka)
  return {
    restored,
    async publish(asOf, items) {
      const changed = items.flatMap((figures): { key: string; value: Buffer }[] => {
        const key = String(figures.item_id)
        const value = kafka.codec.encode(itemSummarised, figures)
        return known.get(key)?.equals(value) ? [] : [{ key, value }]
      })
      const send = (records: readonly { key: string; value: Buffer }[]): Promise<void> =>
        publisher.send(records.map((record): Outgoing => ({ topic: TOPIC, partition: 0, ...record })))
      for (let from = 0; from < changed.length; from += PORTION) {
        const portion = changed.slice(from, from + PORTION)
        await send(portion)
        for (const { key, value } of portion) known.set(key, value)
      }
      const marker = { as_of: asOf, items: items.length, changed: changed.length }
      await send([{ key: MARKER_KEY, value: kafka.codec.encode(marketSummarised, marker) }])
      return changed.length
    },
  }
}

async function readLog(
  kafka: KafkaConnection,
): Promise<{ known: Map<string, Buffer>; restored: SummaryLog['restored'] }> {
  const name = kafka.topicName(TOPIC)
  const reader = await openRangeReader(kafka, [name])
  const known = new Map<string, Buffer>()
  const items = new Map<number, ItemSummarised>()
  let asOf: Instant | undefined
  try {
    const to = await reader.stableEnd(name, 0)
    await reader.read({ topic: name, partition: 0, from: 0, to }, async ({ key, value }) => {
      if (value === null) return
      try {
        const decoded = kafka.codec.decode(value)
        if (decoded.event === 'ItemSummarised') {
          known.set(String(key), value)
          items.set(decoded.value.item_id, decoded.value)
          asOf = undefined
        } else if (decoded.event === 'MarketSummarised') asOf = decoded.value.as_of
      } catch (error) {
        // What cannot be read is written again with the next summary.
        if (!(error instanceof DecodeError)) throw error
      }
    })
  } finally {
    await reader.close()
  }
  return { known, restored: asOf === undefined ? undefined : { asOf, items: [...items.values()] } }
}
