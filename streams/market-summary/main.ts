/**
 * The role `market-summary`: the market as a whole, as an arbitrage snapshot and a summary of every item.
 *
 * Reads the live view, market.book-changes, ClickHouse and provider health; writes market.summaries and the views of
 * `{market}:*`. One process works, by a lease; others are standby. Invariant: all state is read again at each
 * start, so a kill at any moment costs the time of a start and nothing else.
 */
import { loadAnalytics } from '#infra/config/analytics.ts'
import { loadProviders } from '#infra/config/providers.ts'
import { loadSupply } from '#infra/config/supply.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { openPublisher } from '#infra/kafka/publisher.ts'
import { openLiveReader } from '#streams/live-view/reader.ts'
import { openHealthReader } from '#streams/provider-health/reader.ts'
import { type LeasedTools, leasedRole, type Pace } from '#streams/runner/leased-role.ts'
import { type Analyst, openAnalyst } from './analyst.ts'
import { Board } from './board.ts'
import { followMarket } from './follow-market.ts'
import { openViewWriter } from './sink.ts'
import { openSummaryLog } from './summary-log.ts'
import { marketLeaseKey, summaryHeadKey } from './table.ts'

const NAME = 'market-summary'
/** A third of the 30 seconds that a snapshot may be old; a machine that is slow has two thirds, one that fails time for another. */
const ARBITRAGE_PACE: Pace = { everyMs: 10_000, atMostMs: 20_000 }
/** How soon a provider that has come counts; without one the analyst computes every two minutes. */
const SUMMARY_PACE: Pace = { everyMs: 10_000, atMostMs: 600_000 }

/** Starts the role. */
export const start = leasedRole<Analyst>({
  name: NAME,
  leaseKey: marketLeaseKey,
  open,
  tasks: [
    { view: 'arbitrage', pace: ARBITRAGE_PACE, compute: (analyst, asOf) => analyst.arbitrage(asOf) },
    { view: 'summary', pace: SUMMARY_PACE, compute: (analyst, asOf) => analyst.summary(asOf) },
  ],
})

/** Follows the market; each analyst begins with what the log holds by then. */
async function open({ context, redis, clickhouse, lease, log, signal, onEnd }: LeasedTools) {
  const { config } = context
  const prefix = config.namespace
  const kafka = connectKafka({ config, role: NAME, log })
  const publisher = await openPublisher(kafka, NAME)
  onEnd(() => publisher.close())
  const registry = config.providersFile ? loadProviders(config.providersFile) : loadProviders()
  const keysOf = { ask: registry.askKeys, bid: registry.bidKeys }
  const board = new Board(keysOf)
  const live = openLiveReader(redis, prefix, keysOf)
  const market = await followMarket(board, { kafka, ids: await context.topicIds(), live, log, signal })
  if (!market) return undefined
  market.lost.catch(error => context.fail(error))
  const health = openHealthReader(redis, prefix)
  const parts = { board, health, clickhouse, registry, analytics: loadAnalytics(), supply: loadSupply() }
  const catalog = await context.catalog()
  const views = openViewWriter(redis, lease, prefix)
  return async (): Promise<Analyst> => {
    const analyst = openAnalyst({ ...parts, catalog, views, log: await openSummaryLog(kafka, publisher) })
    if ((await redis.exists(summaryHeadKey(prefix))) === 0) await analyst.restore()
    return analyst
  }
}
