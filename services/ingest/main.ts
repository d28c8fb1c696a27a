/**
 * The ingest role: one process that polls every feed of a market and publishes what it sees.
 *
 * Reads the market file, the providers' sources and exchange rates; writes market.quotes, market.bids,
 * market.sales, market.fx and market.feeds. Invariant: stateless but for market.feeds, so it may be
 * killed at any moment; it stops by letting refreshes in flight finish within a grace time, then cuts
 * them at a record's boundary, and an unfinished refresh never counts.
 */
import { loadMarket } from '#infra/config/market.ts'
import { loadProviders } from '#infra/config/providers.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { openPublisher } from '#infra/kafka/publisher.ts'
import type { RoleContext, StartRole } from '#infra/runtime/role.ts'
import { type BackfillProgress, backfill } from './backfill.ts'
import { type OpenFeed, openFeeds } from './connectors/open.ts'
import { publishRates } from './fx/publish-rates.ts'
import { rateSources } from './fx/source.ts'
import { openMeter } from './meter.ts'
import { openOutlet } from './outlet.ts'
import { openPositions } from './positions.ts'
import { type FeedRoom, runFeed } from './run-feed.ts'

const FX_EVERY_MS = 3_600_000
const GRACE_MS = 5_000
const PROGRESS_EVERY_MS = 2_000

/** Starts polling the market that the configuration names. */
export const start: StartRole = async context => {
  const { config, log, metrics } = context
  const market = loadMarket(config.market)
  const providers = loadProviders(config.providersFile)
  const kafka = connectKafka({ config, role: 'ingest', log })
  const publisher = await openPublisher(kafka, 'ingest')
  const outlet = openOutlet(kafka.codec, publisher)
  const stop = new AbortController()
  const cut = new AbortController()
  const stopping = AbortSignal.any([context.signal, stop.signal])
  try {
    const rates = await publishRates({
      ...outlet,
      ...rateSources(config.fxUrl),
      log,
      metrics,
      everyMs: FX_EVERY_MS,
      signal: stopping,
    })
    const positions = await openPositions(kafka, outlet, stopping)
    const feeds = await openFeeds(market, providers, rates.current(), process.env)
    const room: FeedRoom = {
      outlet,
      positions,
      meter: openMeter(metrics, log),
      rates: rates.current,
      clock: Date.now,
      stopping,
      cut: cut.signal,
    }
    const state: RunState = { pending: undefined }
    const running = Promise.all([rates.closed, runMarket(feeds, market.backfill, room, context, state)])
    const ended = running.then(
      () => undefined,
      (error: Error) => void (stopping.aborted || context.fail(error)),
    )
    log.info({ market: market.name, feeds: feeds.length }, 'ingest runs')
    return {
      name: 'ingest',
      ready: async () => publisher.trouble() ?? state.pending,
      async stop() {
        stop.abort()
        const grace = setTimeout(() => cut.abort(), GRACE_MS)
        await ended
        clearTimeout(grace)
        await publisher.close()
      },
    }
  } catch (error) {
    stop.abort()
    await publisher.close()
    throw error
  }
}

/** Why the market is not live yet. */
interface RunState {
  pending: string | undefined
}

/** Feeds that can tell the past go live after the backfill; the others do at once. */
async function runMarket(
  feeds: readonly OpenFeed[],
  history: { days: number; refreshes_per_day: number },
  room: FeedRoom,
  context: RoleContext,
  state: RunState,
): Promise<void> {
  const isHistoric = (feed: OpenFeed): boolean => history.days > 0 && feed.connector.refreshAt !== undefined
  const historic = feeds.filter(isHistoric)
  const live = feeds.filter(feed => !isHistoric(feed)).map(feed => runFeed(feed, room))
  const later = async (): Promise<void> => {
    const options = { days: history.days, refreshesPerDay: history.refreshes_per_day }
    await backfill(historic, options, room, progressTo(context, state))
    state.pending = undefined
    await Promise.all(historic.map(feed => runFeed(feed, room)))
  }
  if (historic.length > 0) state.pending = 'backfill: planning'
  await Promise.all([...live, ...(historic.length > 0 ? [later()] : [])])
}

function progressTo(context: RoleContext, state: RunState): (progress: BackfillProgress) => void {
  let saidAt = performance.now()
  return ({ done, total, observations }) => {
    state.pending = `backfill: ${done} of ${total} refreshes`
    const isDone = done === total && total > 0
    if (!isDone && performance.now() - saidAt < PROGRESS_EVERY_MS) return
    saidAt = performance.now()
    context.log.info({ done, total, observations }, 'backfill')
  }
}
