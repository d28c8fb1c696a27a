/**
 * Keeps the current exchange rates, and publishes them to market.fx: at the start and on each change.
 *
 * They come from the currency-api package on disk, or from an HTTP URL of the same shape. Every process keeps a table; only the owner
 * of market.fx writes it. There is always a table, since the packaged one is used until a configured URL has answered once; sources
 * read the table at the start of a refresh, so one refresh never mixes two.
 */
import { readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { loadCurrencies } from '#infra/config/currencies.ts'
import type { Codec } from '#infra/kafka/codec.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { fxRatesPublished } from '#schemas/events/fx-rates-published.ts'
import { isFromTheFuture } from '#schemas/values/event-time.ts'
import { formatInstant, MINUTE_MS } from '#schemas/values/instant.ts'
import { fetchText } from '../bounded-fetch.ts'
import { parseRateTable, type RateTable } from './rate-table.ts'

type RateSource = (signal: AbortSignal) => Promise<RateTable>

interface RateSources {
  packaged: RateSource
  /** Undefined: the packaged rates are all there is. */
  remote: RateSource | undefined
}

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

/** The current rates, kept current until the signal. */
export interface KeptRates {
  current(): RateTable
  /** Resolves when the current table is another one than that, or after the signal. */
  changed(from: RateTable, signal: AbortSignal): Promise<void>
  /** Resolves after the signal. */
  closed: Promise<void>
}

const PACKAGE = '@fawazahmed0/currency-api'

/** The sources of the platform's currencies: the package always, a URL where one is set. */
export function rateSources(fxUrl: string | undefined): RateSources {
  const codes = loadCurrencies()
  return { packaged: packagedRates(codes), remote: fxUrl === undefined ? undefined : remoteRates(fxUrl, codes) }
}

export function packagedRates(codes: readonly string[]): RateSource {
  const file = fileURLToPath(import.meta.resolve(`${PACKAGE}/v1/currencies/usd.json`))
  return async () => parseRateTable(await readFile(file, 'utf8'), PACKAGE, codes)
}

export function remoteRates(address: string, codes: readonly string[]): RateSource {
  const url = URL.parse(address)
  if (!url) throw new Error('FX_URL is not a URL')
  return async signal => {
    const bounds = {
      requestTimeoutMs: 15_000,
      maxBytes: 4 * 2 ** 20,
      maxRedirects: 3,
      retries: 4,
      retryAfterMs: 500,
      signal: AbortSignal.any([signal, AbortSignal.timeout(MINUTE_MS)]),
    }
    const { text } = await fetchText(url, {}, bounds)
    return parseRateTable(text, `${url.origin}${url.pathname}`, codes)
  }
}

/** Publishes the current table once; the packaged one where the URL does not answer. */
export async function publishRatesOnce(options: RateKeeping & RatePublishing): Promise<RateTable> {
  const table = await firstTable(options)
  await publishTable(options, table)
  return table
}

/** Reads the current table and then polls its source. */
export async function keepRates(options: RateKeeping & { everyMs: number }): Promise<KeptRates> {
  const { everyMs, signal } = options
  let table = await firstTable(options)
  let change = Promise.withResolvers<void>()
  const poll = async (): Promise<void> => {
    while (!signal.aborted) {
      await delay(everyMs, undefined, { signal }).catch(() => undefined)
      const next = signal.aborted ? undefined : await tryTable(options)
      if (!next || JSON.stringify(next.event) === JSON.stringify(table.event)) continue
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

const firstTable = async (options: RateKeeping): Promise<RateTable> =>
  (options.remote && (await tryTable(options))) ?? (await options.packaged(options.signal))

async function tryTable({ remote, packaged, metrics, log, signal }: RateKeeping): Promise<RateTable | undefined> {
  try {
    const table = await (remote ?? packaged)(signal)
    // Readers would refuse it now, and it would not be published again when its time has come.
    if (isFromTheFuture(table.asOf, Date.now()))
      throw new Error(`the rates are dated ahead, ${formatInstant(table.asOf)}`)
    return table
  } catch (error) {
    if (signal.aborted) return undefined
    metrics.counter('marketlog_ingest_fx_failures_total', 'Polls of the exchange rates that failed.').inc()
    log.warn({ error: String(error) }, 'exchange rates could not be read; the last table stays')
    return undefined
  }
}

async function publishTable({ codec, publisher, log, metrics }: RatePublishing, table: RateTable): Promise<void> {
  await publisher.send([{ topic: 'fx', key: 'USD', value: codec.encode(fxRatesPublished, table.event) }])
  metrics.gauge('marketlog_ingest_fx_as_of_seconds', 'Time of the published exchange rates.').set(table.asOf / 1_000)
  const count = Object.keys(table.event.rates).length
  log.info({ source: table.source, asOf: formatInstant(table.asOf), count }, 'exchange rates published')
}
