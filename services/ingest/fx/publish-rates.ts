/**
 * Keeps the current exchange rates, and publishes them to market.fx: at the start and on each change.
 *
 * Every process keeps a table; only the owner of market.fx writes it. There is always a table, since the packaged one is used
 * until a configured URL has answered once; feeds read the table at the start of a refresh, so one refresh never mixes two.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Codec } from '#infra/kafka/codec.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { fxRatesPublished } from '#schemas/events/fx-rates-published.ts'
import { isFromTheFuture } from '#schemas/values/event-time.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { isSameTable, type RateTable } from './rate-table.ts'
import type { RateSources } from './source.ts'

interface RateKeeping extends RateSources {
  log: Log
  metrics: Metrics
  signal: AbortSignal
}

interface RatePublishing {
  codec: Codec
  publisher: Pick<Publisher, 'send'>
  log: Log
  metrics: Metrics
}

export interface KeptRates {
  current(): RateTable
  changed(from: RateTable, signal: AbortSignal): Promise<void>
  closed: Promise<void>
}

export async function publishRatesOnce(options: RateKeeping & RatePublishing): Promise<RateTable> {
  const table = await firstTable(options)
  await publishTable(options, table)
  return table
}

export async function keepRates(options: RateKeeping & { everyMs: number }): Promise<KeptRates> {
  const { everyMs, signal } = options
  let table = await firstTable(options)
  let change = Promise.withResolvers<void>()
  const poll = async (): Promise<void> => {
    while (!signal.aborted) {
      await delay(everyMs, undefined, { signal }).catch(() => undefined)
      const next = signal.aborted ? undefined : await tryTable(options)
      if (!next || isSameTable(next, table)) continue
      table = next
      change.resolve()
      change = Promise.withResolvers()
    }
  }
  return {
    current: () => table,
    async changed(from, until) {
      const ended = Promise.withResolvers<void>()
      until.addEventListener('abort', () => ended.resolve(), { once: true })
      if (until.aborted || table !== from) return
      await Promise.race([change.promise, ended.promise])
    },
    closed: poll(),
  }
}

/** Publishes the current table and each that follows it, until the signal; rejects when one could not be written. */
export async function publishRates(rates: KeptRates, options: RatePublishing, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const table = rates.current()
    await publishTable(options, table)
    await rates.changed(table, signal)
  }
}

async function firstTable(options: RateKeeping): Promise<RateTable> {
  return (options.remote && (await tryTable(options))) ?? (await options.packaged(options.signal))
}

async function tryTable(options: RateKeeping): Promise<RateTable | undefined> {
  const source = options.remote ?? options.packaged
  try {
    const table = await source(options.signal)
    // Readers would refuse it now, and it would not be published again when its time has come.
    if (isFromTheFuture(table.asOf, Date.now()))
      throw new Error(`the rates are dated ahead, ${formatInstant(table.asOf)}`)
    return table
  } catch (error) {
    if (options.signal.aborted) return undefined
    options.metrics.counter('marketlog_ingest_fx_failures_total', 'Polls of the exchange rates that failed.').inc()
    options.log.warn({ error: String(error) }, 'exchange rates could not be read; the last table stays')
    return undefined
  }
}

async function publishTable({ codec, publisher, log, metrics }: RatePublishing, table: RateTable): Promise<void> {
  await publisher.send([{ topic: 'fx', key: 'USD', value: codec.encode(fxRatesPublished, table.event) }])
  metrics.gauge('marketlog_ingest_fx_as_of_seconds', 'Time of the published exchange rates.').set(table.asOf / 1_000)
  const count = Object.keys(table.event.rates).length
  log.info({ source: table.source, asOf: new Date(table.asOf).toISOString(), count }, 'exchange rates published')
}
