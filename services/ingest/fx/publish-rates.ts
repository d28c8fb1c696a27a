/**
 * Keeps the current exchange rates and publishes them to market.fx: at the start and on each change.
 *
 * Writes market.fx through the publisher. Invariant: there is always a table, since the packaged one
 * stands in until a configured URL has answered once; feeds read the table at the start of a refresh,
 * so one refresh never mixes two.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Codec } from '#infra/kafka/codec.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { fxRatesPublished } from '#schemas/events/fx-rates-published.ts'
import { isSameTable, type RateTable } from './rate-table.ts'
import type { RateSources } from './source.ts'

/** What publishing rates needs. */
export interface RatePublishing extends RateSources {
  codec: Codec
  publisher: Publisher
  log: Log
  metrics: Metrics
  signal: AbortSignal
}

/** The current rates, kept current until the signal. */
export interface PublishedRates {
  current(): RateTable
  /** Resolves after the signal; rejects when the log is lost. */
  closed: Promise<void>
}

/** Publishes the current table once; the packaged one where the URL does not answer. */
export async function publishRatesOnce(options: RatePublishing): Promise<RateTable> {
  const table = (options.remote && (await tryTable(options))) ?? (await options.packaged(options.signal))
  await publish(options, table)
  return table
}

/** Publishes the current table and goes on polling its source. */
export async function publishRates(options: RatePublishing & { everyMs: number }): Promise<PublishedRates> {
  let table = await publishRatesOnce(options)
  const poll = async (): Promise<void> => {
    while (!options.signal.aborted) {
      await delay(options.everyMs, undefined, { signal: options.signal }).catch(() => undefined)
      if (options.signal.aborted) return
      const next = await tryTable(options)
      if (!next || isSameTable(next, table)) continue
      table = next
      await publish(options, table)
    }
  }
  return { current: () => table, closed: poll() }
}

async function tryTable(options: RatePublishing): Promise<RateTable | undefined> {
  const source = options.remote ?? options.packaged
  try {
    return await source(options.signal)
  } catch (error) {
    if (options.signal.aborted) return undefined
    options.metrics.counter('marketlog_ingest_fx_failures_total', 'Polls of the exchange rates that failed.').inc()
    options.log.warn({ error: String(error) }, 'exchange rates could not be read; the last table stays')
    return undefined
  }
}

async function publish({ codec, publisher, log, metrics }: RatePublishing, table: RateTable): Promise<void> {
  await publisher.send([{ topic: 'fx', key: 'USD', value: codec.encode(fxRatesPublished, table.event) }])
  metrics.gauge('marketlog_ingest_fx_as_of_seconds', 'Time of the published exchange rates.').set(table.asOf / 1_000)
  const count = Object.keys(table.event.rates).length
  log.info({ source: table.source, asOf: new Date(table.asOf).toISOString(), count }, 'exchange rates published')
}
