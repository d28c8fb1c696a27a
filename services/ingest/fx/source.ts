/** Where exchange rates come from: the currency-api package on disk, or an HTTP URL of the same shape. */
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { loadCurrencies } from '#infra/config/currencies.ts'
import { fetchText } from '../bounded-fetch.ts'
import { parseRateTable, type RateTable } from './rate-table.ts'

type RateSource = (signal: AbortSignal) => Promise<RateTable>

const PACKAGE = '@fawazahmed0/currency-api'
const TIME_LIMIT_MS = 60_000

/** The sources that a configuration names: the package's always, a URL's where one is set. */
export interface RateSources {
  packaged: RateSource
  /** Undefined: the packaged rates are all there is. */
  remote: RateSource | undefined
}

/** Opens the sources of the platform's currencies. */
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
    const { text } = await fetchText(
      url,
      {},
      {
        requestTimeoutMs: 15_000,
        maxBytes: 4 * 2 ** 20,
        maxRedirects: 3,
        retries: 4,
        retryAfterMs: 500,
        signal: AbortSignal.any([signal, AbortSignal.timeout(TIME_LIMIT_MS)]),
      },
    )
    return parseRateTable(text, `${url.origin}${url.pathname}`, codes)
  }
}
