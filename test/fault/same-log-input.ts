/**
 * A log of observations whose event times cross the changes of clocks, and its copies in other namespaces.
 *
 * Writes the topics that come from outside: asks, bids, sales, exchange rates, daily closes, alert rules. A copy
 * holds the same bytes and append times at the same offsets, so it reads as the same log. The changes of clocks lie years
 * ahead, and so do the append times.
 */
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { type Outgoing, openPublisher } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { openTopicCopy } from '#infra/kafka/topic-copy.ts'
import { scanTopic } from '#infra/kafka/topic-scan.ts'
import { alertRuleChanged } from '#schemas/events/alert-rule-changed.ts'
import { dayClosed } from '#schemas/events/day-closed.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { type MarketSize, openSeededMarket } from '#test/fixtures/seeded-market.ts'
import { type Ledger, openLedger } from '#test/harness/ledger.ts'
import { ratesRecord, refreshRecords, saleRecord } from '#test/harness/published-records.ts'
import type { SeededRandom } from '#test/harness/seeded-random.ts'
import { openStampedPublisher } from '#test/harness/stamped-publisher.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** When clocks change in New York and in Berlin in 2031. */
export const CLOCK_CHANGES = [
  Date.UTC(2031, 2, 9, 7),
  Date.UTC(2031, 2, 30, 1),
  Date.UTC(2031, 9, 26, 1),
  Date.UTC(2031, 10, 2, 6),
] as const
const BEFORE_MS = 3 * HOUR_MS
/** Longer than the refreshes around a change, sales and closes take. */
const TAKEN_AT = CLOCK_CHANGES[3] + 14 * DAY_MS
const MINUTES_APART = 90

/** The events at the beginning of everything that is derived. */
const INPUTS = ['fx', 'alertRules', 'quotes', 'bids', 'sales', 'dayCloses'] as const satisfies TopicKey[]

const OBSERVED = INPUTS.filter(key => topics[key].writer === 'ingest')

/** Sizes of a log. */
export interface InputSize extends MarketSize {
  /** Of each feed, around each change of clocks. */
  refreshes: number
  rules: number
}

/** Writes the log; resolves with the first of its providers' last times, when none of them was down. */
export async function writeInput(kafka: KafkaConnection, random: SeededRandom, size: InputSize): Promise<number> {
  const stamped = await openStampedPublisher(kafka, OBSERVED)
  const ingest = { ...stamped, send: (records: readonly Outgoing[]) => stamped.send(records, TAKEN_AT) }
  const accounts = await openPublisher(kafka, 'accounts')
  const catalog = await openCatalogReader(kafka)
  const feeds = openSeededMarket(random, { ...size, from: CLOCK_CHANGES[0] - BEFORE_MS, minutesApart: MINUTES_APART })
  const items = (feeds[0]?.items ?? []).flatMap(({ itemId }) => catalog.byId(itemId) ?? [])
  const ends: number[] = []
  try {
    await ingest.send(CLOCK_CHANGES.flatMap(at => ratesAround(kafka, at)))
    await accounts.send(rulesOf(kafka, random, items, size.rules))
    for (const change of CLOCK_CHANGES) {
      for (const feed of feeds) feed.skipTo(change - BEFORE_MS + random.integer(0, HOUR_MS))
      const left = new Map(feeds.map(feed => [feed, size.refreshes]))
      while (left.size > 0) {
        const feed = random.pick([...left.keys()])
        const refresh = feed.next()
        await ingest.send(refreshRecords(kafka.codec, refresh))
        const more = (left.get(feed) ?? 0) - 1
        if (more > 0) left.set(feed, more)
        else left.delete(feed)
      }
      await ingest.send([...salesAround(kafka, random, items, change), ...closesAround(kafka, random, items, change)])
    }
    for (const feed of feeds) {
      const refresh = feed.last()
      ends.push(refresh.observedAt)
      await ingest.send(refreshRecords(kafka.codec, refresh))
    }
  } finally {
    await catalog.close()
    await accounts.close()
    await ingest.close()
  }
  return Math.min(...ends)
}

/** Tables of rates of the evening before and of the morning after. */
function ratesAround({ codec }: KafkaConnection, at: number): Outgoing[] {
  const midnight = Math.floor(at / DAY_MS) * DAY_MS
  return [midnight - 1, midnight, at].map(as_of => {
    return ratesRecord(codec, as_of, { EUR: `0.92${as_of % 89}7`, GBP: `0.78${as_of % 97}3` })
  })
}

function rulesOf(
  { codec }: KafkaConnection,
  random: SeededRandom,
  items: readonly CatalogItem[],
  count: number,
): Outgoing[] {
  return Array.from({ length: count }, (_, at) => {
    const { item_id } = random.pick(items)
    const kind = random.pick(['price_below', 'price_above', 'spread_exceeds'] as const)
    const alert_id = `alert-${at}`
    const rule = {
      alert_id,
      account_id: 'account',
      item_id,
      kind,
      is_enabled: true,
      version: 1,
      threshold_value: kind === 'spread_exceeds' ? `${random.integer(1, 40)}.5` : `${random.integer(0, 300)}.25`,
      threshold_currency: kind === 'spread_exceeds' ? null : random.pick(['USD', 'EUR']),
      changed_at: CLOCK_CHANGES[0] - DAY_MS,
    }
    const value = codec.encode(alertRuleChanged, rule)
    return { topic: 'alertRules', key: alert_id, value, partition: partitionOfItem(item_id) }
  })
}

const SALES_AROUND = 60

function salesAround(
  { codec }: KafkaConnection,
  random: SeededRandom,
  items: readonly CatalogItem[],
  at: number,
): Outgoing[] {
  return Array.from({ length: SALES_AROUND }, (_, n) => {
    const { market_hash_name, phase } = random.pick(items)
    const provider = random.pick(['provider_07', 'provider_12'])
    const sold_at = at + random.integer(-DAY_MS, DAY_MS)
    return saleRecord(codec, {
      provider,
      market_hash_name,
      phase,
      price: random.integer(1, 90_000),
      currency: 'EUR',
      usd_rate: '0.9213',
      sale_id: `${at}-${n % 50}`,
      sold_at,
      observed_at: at + DAY_MS,
      float: random.next(),
      paint_seed: n,
      stickers: [],
      charms: null,
      inspect_in_game: null,
      screenshot_front: null,
      screenshot_back: null,
    })
  })
}

const CLOSES_AROUND = 40

function closesAround(
  { codec }: KafkaConnection,
  random: SeededRandom,
  items: readonly CatalogItem[],
  at: number,
): Outgoing[] {
  const midnight = Math.floor(at / DAY_MS) * DAY_MS
  return random
    .shuffle([...items])
    .slice(0, CLOSES_AROUND)
    .flatMap(({ market_hash_name, phase }) =>
      [-1, 0, 1].map(days => {
        const close = {
          provider: 'provider_40',
          market_hash_name,
          phase,
          day: midnight + days * DAY_MS,
          price: random.integer(1, 90_000),
          currency: 'USD',
          usd_rate: '1',
          listings: random.integer(1, 9),
          previous_price: null,
          previous_listings: null,
          is_last: days === 1,
        }
        return { topic: 'dayCloses' as const, key: market_hash_name, value: codec.encode(dayClosed, close) }
      }),
    )
}

/** Copies the inputs to another namespace. */
export async function copyInput(from: KafkaConnection, to: KafkaConnection): Promise<void> {
  const reader = await openRangeReader(from, INPUTS.map(from.topicName))
  // So that its topics keep the times as they come.
  await (await openStampedPublisher(to, OBSERVED)).close()
  try {
    for (const key of INPUTS) {
      const topic = from.topicName(key)
      // By its full name, since within a namespace a topic of the catalogue has one writer alone.
      const copy = await openTopicCopy({ ...to, namespace: '' }, to.topicName(key), topics[key].partitions)
      const ranges = new Map<number, { from: number; to: number }>()
      for (let partition = 0; partition < topics[key].partitions; partition++) {
        ranges.set(partition, { from: 0, to: await reader.stableEnd(topic, partition) })
      }
      for await (const page of scanTopic(reader, topic, ranges)) await copy.send(page)
      await copy.close()
    }
  } finally {
    await reader.close()
  }
}

/** Every input record of two namespaces by offset, key and bytes. */
export async function inputLedger(one: KafkaConnection, other: KafkaConnection, least: number): Promise<Ledger> {
  const entriesOf = async (kafka: KafkaConnection) => {
    const reader = await openRangeReader(kafka, INPUTS.map(kafka.topicName))
    const entries: { key: string; what: string }[] = []
    try {
      for (const name of INPUTS) {
        const topic = kafka.topicName(name)
        for (let partition = 0; partition < topics[name].partitions; partition++) {
          const range = { topic, partition, from: 0, to: await reader.stableEnd(topic, partition) }
          await reader.read(range, ({ offset, key, value, timestamp }) => {
            const time = OBSERVED.includes(name) ? timestamp : undefined
            const what = [offset, key, time, value?.toString('base64')].join(' ')
            entries.push({ key: `${name}|${partition}`, what })
          })
        }
      }
    } finally {
      await reader.close()
    }
    return entries
  }
  return openLedger(await entriesOf(one), await entriesOf(other), least)
}
