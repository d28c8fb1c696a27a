/**
 * The ingest role: polls the feeds of a market that its group assigns to this process, and publishes what it sees.
 *
 * Reads the market file, the providers' sources and exchange rates; writes market.quotes, market.bids,
 * market.sales, market.fx and market.feeds. Any number of processes share the feeds. Stateless but for market.feeds, so it may be
 * killed at any moment. It stops by letting refreshes in flight finish within a grace time, then cuts them at a record's boundary;
 * an unfinished refresh never counts. Invariant: the group is left last, when nothing is written any more.
 */
import { loadMarket } from '#infra/config/market.ts'
import { loadProviders } from '#infra/config/providers.ts'
import { openBrokerHealth } from '#infra/kafka/broker-health.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { joinOwners, type OwnedWork, type Ownership } from '#infra/kafka/ownership.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { allTopics } from '#schemas/topics.ts'
import { HOUR_MS } from '#schemas/values/instant.ts'
import type { Feed } from './connector.ts'
import { openFeeds } from './connectors/open.ts'
import { GROUP } from './feed-writer.ts'
import { keepRates } from './fx/publish-rates.ts'
import { rateSources } from './fx/source.ts'
import { openMeter } from './meter.ts'
import { openOwnedFeeds, RATES } from './owned-feeds.ts'
import { keyOf, openPositions } from './positions.ts'
import { partitionOfFeed, TOPICS } from './publish-refresh.ts'
import { openSemaphore } from './refresh-publisher.ts'

const FX_EVERY_MS = HOUR_MS
const GRACE_MS = 5_000
/** Writers that open at once. */
const OPENING = 8

export const start: StartRole = async context => {
  const { config, log, metrics, fail } = context
  const market = loadMarket(config.market)
  const providers = loadProviders(config.providersFile)
  const kafka = connectKafka({ config, role: 'ingest', log })
  const stop = new AbortController()
  const cut = new AbortController()
  const stopping = AbortSignal.any([context.signal, stop.signal])
  const waits = openWaits()
  const { isWaiting } = waits
  const brokerHealth = openBrokerHealth({ who: 'the writer ingest', brokers: kafka.brokers, log, isWaiting })
  let ownership: Ownership | undefined
  const confirmed = async (signal: AbortSignal) => ownership?.confirmed(signal)
  try {
    await kafka.codec.prepare(allTopics.filter(({ writer }) => writer === 'ingest').flatMap(({ events }) => events))
    const catalog = await context.catalog()
    const rates = await keepRates({
      ...rateSources(config.fxUrl),
      log,
      metrics,
      everyMs: FX_EVERY_MS,
      signal: stopping,
    })
    const feeds = await openFeeds(market, providers, rates.current(), config.variables)
    const owned = openOwnedFeeds({
      feeds,
      rates,
      history: market.backfill,
      log,
      metrics,
      fail,
      stopping,
      cut: cut.signal,
      clock: Date.now,
      positions: openPositions(kafka, catalog.idOf),
      meter: openMeter(metrics, log),
      acquire: openSemaphore(),
      writers: { kafka, brokerHealth, acquire: openSemaphore(OPENING), waits: waits.until, confirmed },
    })
    ownership = await joinOwners(kafka, {
      group: GROUP,
      work: workOf(feeds),
      assigned: names => void (stopping.aborted || owned.assign(names)),
      fail,
    })
    log.info({ market: market.name, feeds: feeds.length }, 'ingest runs')
    const group = ownership
    return {
      name: 'ingest',
      ready: async () => (isWaiting() ? brokerHealth.trouble() : undefined) ?? group.trouble() ?? owned.pending(),
      async stop() {
        stop.abort()
        const grace = setTimeout(() => cut.abort(), GRACE_MS)
        await owned.close()
        await rates.closed
        clearTimeout(grace)
        brokerHealth.close()
        await group.leave()
      },
    }
  } catch (error) {
    stop.abort()
    brokerHealth.close()
    await ownership?.leave()
    throw error
  }
}

const workOf = (feeds: readonly Feed[]): OwnedWork[] => [
  ...feeds.map(feed => ({ name: keyOf(feed), topic: TOPICS[feed.side], partition: partitionOfFeed(feed) })),
  { name: RATES, topic: 'fx', partition: 0 },
]

function openWaits() {
  let waiting = 0
  return {
    isWaiting: (): boolean => waiting > 0,
    async until<T>(work: Promise<T>): Promise<T> {
      waiting += 1
      return work.finally(() => {
        waiting -= 1
      })
    },
  }
}
