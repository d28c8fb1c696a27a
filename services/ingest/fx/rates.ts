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
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { fxRatesPublished } from '#schemas/events/fx-rates-published.ts'
import { isFromTheFuture } from '#schemas/values/event-time.ts'
import { formatInstant, MINUTE_MS } from '#schemas/values/instant.ts'
import { fetchText } from '../bounded-fetch.ts'
import { parseRateTable, type RateTable } from './rate-table.ts'

type RateSource = (signal: AbortSignal) => Promise<RateTable>

interface RateKeeping {
  /** Undefined: the packaged rates are all there is. */
  remote: RateSource | undefined
  log: Log
  signal: AbortSignal
}

export type KeptRates = Awaited<ReturnType<typeof keepRates>>

const PACKAGE = '@fawazahmed0/currency-api'
const CHECK_EVERY_MS = 1_000

export async function packagedRates(): Promise<RateTable> {
  const file = fileURLToPath(import.meta.resolve(`${PACKAGE}/v1/currencies/usd.json`))
  return parseRateTable(await readFile(file, 'utf8'), PACKAGE, loadCurrencies())
}

export function remoteRates(fxUrl: string | undefined): RateSource | undefined {
  if (fxUrl === undefined) return undefined
  const url = URL.parse(fxUrl)
  if (!url) throw new Error('FX_URL is not a URL')
  return async signal => {
    const { text } = await fetchText(
      url,
      {},
      {
        request_timeout_ms: 15_000,
        max_bytes: 4 * 2 ** 20,
        max_redirects: 3,
        retries: 4,
        retry_after_ms: 500,
        signal: AbortSignal.any([signal, AbortSignal.timeout(MINUTE_MS)]),
      },
    )
    return parseRateTable(text, `${url.origin}${url.pathname}`, loadCurrencies())
  }
}

/** The current rates of the configured source, after they have been published; the packaged ones where it does not answer. */
export async function publishConfiguredRates(
  { fxUrl }: Pick<PlatformConfig, 'fxUrl'>,
  log: Log,
  signal: AbortSignal,
  { codec, publisher }: { codec: Codec; publisher: Publisher },
): Promise<RateTable> {
  const table = await currentRates({ remote: remoteRates(fxUrl), log, signal })
  await publishTable({ codec, send: publisher.send }, table, log)
  return table
}

export async function keepRates(options: RateKeeping & { everyMs: number }) {
  const { everyMs, signal } = options
  let table = await currentRates(options)
  const poll = async (): Promise<void> => {
    while (!signal.aborted) {
      await delay(everyMs, undefined, { signal }).catch(() => undefined)
      const next = signal.aborted ? undefined : await tryTable(options.remote ?? packagedRates, options)
      if (next && JSON.stringify(next.event) !== JSON.stringify(table.event)) table = next
    }
  }
  return {
    current: () => table,
    /** Resolves after the signal. */
    closed: poll(),
  }
}

/** Publishes the current table and each that follows it, until it is stopped; rejects when one could not be written. */
export async function publishRates(owned: {
  rates: Pick<KeptRates, 'current'>
  publisher: Parameters<typeof publishTable>[0]
  stopping: AbortSignal
  log: Log
}): Promise<void> {
  let published: RateTable | undefined
  while (!owned.stopping.aborted) {
    const table = owned.rates.current()
    if (table !== published) await publishTable(owned.publisher, table, owned.log)
    published = table
    await delay(CHECK_EVERY_MS, undefined, { signal: owned.stopping }).catch(() => undefined)
  }
}

const currentRates = async (options: RateKeeping): Promise<RateTable> =>
  (options.remote && (await tryTable(options.remote, options))) ?? (await packagedRates())

async function tryTable(read: RateSource, { log, signal }: RateKeeping): Promise<RateTable | undefined> {
  try {
    const table = await read(signal)
    // Readers would refuse it now, and it would not be published again when its time has come.
    if (isFromTheFuture(table.asOf, Date.now()))
      throw new Error(`the rates are dated ahead, ${formatInstant(table.asOf)}`)
    return table
  } catch (error) {
    if (!signal.aborted) log.warn({ error: String(error) }, 'exchange rates could not be read; the last table stays')
    return undefined
  }
}

async function publishTable(
  { codec, send }: { codec: Codec; send: Publisher['send'] },
  table: RateTable,
  log: Log,
): Promise<void> {
  await send([{ topic: 'fx', key: 'USD', value: codec.encode(fxRatesPublished, table.event) }])
  const count = Object.keys(table.event.rates).length
  log.info({ source: table.source, asOf: formatInstant(table.asOf), count }, 'exchange rates published')
}
