/**
 * The ingest role: polls the sources of a market that its group assigns to this process, and publishes what it sees.
 *
 * Reads the market file, the providers' sources and exchange rates; writes market.quotes, market.bids,
 * market.sales, market.fx and market.feeds. Any number of processes share the sources. Stateless but for market.feeds, so it may be
 * killed at any moment. It stops by letting refreshes in flight finish within a grace time, then cuts them at a record's boundary;
 * an unfinished refresh never counts. Invariant: the group is left last, when nothing is written any more.
 */
import PQueue from 'p-queue'
import { loadMarket } from '#infra/config/market.ts'
import { loadProviders } from '#infra/config/providers.ts'
import { openBrokerHealth } from '#infra/kafka/broker-health.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { joinOwners, type Ownership } from '#infra/kafka/ownership.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { allTopics } from '#schemas/topics.ts'
import { HOUR_MS } from '#schemas/values/instant.ts'
import { openSources } from './connectors/open.ts'
import { keepRates, remoteRates } from './fx/rates.ts'
import { keyOf, openPositions } from './positions.ts'
import { partitionOfSource, TOPICS } from './publish-refresh.ts'
import { openOwnedSources, RATES } from './run-source.ts'
import { GROUP } from './source-writer.ts'

const GRACE_MS = 5_000
const WRITERS_OPENING_MAX = 8

export const start: StartRole = async context => {
  const { config, log, metrics, fail } = context
  const market = loadMarket(config.market)
  const providers = loadProviders(config.providersFile)
  const kafka = connectKafka({ config, role: 'ingest', log })
  const stop = new AbortController()
  const cut = new AbortController()
  const stopping = AbortSignal.any([context.signal, stop.signal])
  let waiting = 0
  const isWaiting = (): boolean => waiting > 0
  const waits = <T>(work: Promise<T>): Promise<T> => {
    waiting += 1
    return work.finally(() => {
      waiting -= 1
    })
  }
  const brokerHealth = openBrokerHealth({ brokers: kafka.brokers, log }, 'the writer ingest', isWaiting)
  let ownership: Ownership | undefined
  const confirmed = async (signal: AbortSignal) => ownership?.confirmed(signal)
  try {
    await kafka.codec.prepare(allTopics.filter(({ writer }) => writer === 'ingest').flatMap(({ events }) => events))
    const catalog = await context.catalog()
    const rates = await keepRates({ remote: remoteRates(config.fxUrl), log, everyMs: HOUR_MS, signal: stopping })
    const sources = await openSources(market, providers, rates.current(), config.variables)
    const opening = new PQueue({ concurrency: WRITERS_OPENING_MAX })
    const owned = openOwnedSources({
      sources,
      rates,
      history: market.backfill,
      log,
      metrics,
      fail,
      stopping,
      cut: cut.signal,
      positions: openPositions(kafka, catalog.idOf),
      writers: { kafka, brokerHealth, opening, waits, confirmed },
    })
    ownership = await joinOwners(kafka, {
      group: GROUP,
      work: [
        ...sources.map(one => ({ name: keyOf(one), topic: TOPICS[one.side], partition: partitionOfSource(one) })),
        { name: RATES, topic: 'fx', partition: 0 },
      ],
      assigned: names => void (stopping.aborted || owned.assign(names)),
      fail,
    })
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
