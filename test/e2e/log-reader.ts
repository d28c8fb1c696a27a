/**
 * What a platform's log holds of refreshes, as the reference fold takes them.
 *
 * Reads market.quotes and market.bids from their start, read_committed, without a group. Entries are in the order
 * of the log; a refresh counts as completed when its RefreshCompleted counts what came.
 */
import { loadCatalog } from '#infra/config/catalog.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { follow } from '#infra/kafka/follower.ts'
import { decodeLearning } from '#infra/kafka/learning.ts'
import { readConfig } from '#infra/runtime/config.ts'
import { openLog } from '#infra/runtime/log.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import type { TopicKey } from '#schemas/topics.ts'
import type { PlatformFile } from '#services/cli/run-directory.ts'
import type { GivenEntry, GivenRefresh } from '#test/harness/reference-fold.ts'

const SIDES: [Side, TopicKey][] = [
  ['ask', 'quotes'],
  ['bid', 'bids'],
]

/** Every completed refresh of a platform's log, both sides, in the order of each provider's log. */
export async function refreshesOf({ servers }: PlatformFile): Promise<GivenRefresh[]> {
  const config = readConfig({
    KAFKA_BROKERS: servers.kafka,
    SCHEMA_REGISTRY_URL: servers.schema_registry,
    REDIS_URL: servers.redis,
    CLICKHOUSE_URL: servers.clickhouse,
    DATABASE_URL: servers.postgres,
  })
  const kafka = connectKafka({ config, role: 'e2e', log: openLog({ level: 'silent', name: 'e2e' }) })
  const ids = new Map(loadCatalog().map(item => [`${item.market_hash_name}|${item.phase}`, item.item_id]))
  const refreshes: GivenRefresh[] = []
  for (const [side, topic] of SIDES) {
    const open = new Map<string, GivenEntry[]>()
    const done = new AbortController()
    const following = await follow(kafka, topic, {
      from: 'start',
      signal: done.signal,
      async onRecords(records) {
        for (const { value: bytes } of records) {
          if (bytes === null) continue
          const { event, value } = await decodeLearning(kafka.codec, bytes)
          if (event === 'RefreshCompleted') {
            const { provider, refresh_id: refreshId, observed_at: observedAt, currency, usd_rate: usdRate } = value
            const entries = open.get(`${provider} ${refreshId}`) ?? []
            const completed = entries.length === value.count
            refreshes.push({ side, provider, refreshId, observedAt, currency, usdRate, entries, completed })
          } else {
            const itemId = ids.get(`${value.market_hash_name}|${value.phase}`)
            const key = `${value.provider} ${value.refresh_id}`
            if (!open.has(key)) open.set(key, [])
            open.get(key)?.push({ itemId, price: value.price, quantity: value.quantity })
          }
        }
      },
    })
    await following.caughtUp
    done.abort()
    await following.closed
  }
  return refreshes
}
