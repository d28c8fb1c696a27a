/**
 * Loads a market file: which providers ingest polls, through which connector, how often.
 *
 * `base` becomes a full path. The caller, which has the registry, checks whether the providers exist.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, isAbsolute, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { DAY_MS } from '#schemas/values/instant.ts'
import { parseJson } from './json-file.ts'

const MARKETS = fileURLToPath(new URL('./markets/', import.meta.url))
/** A provider may report them of a sale beyond its price. */
export const SALE_DETAILS = ['float', 'paint_seed', 'stickers', 'charms', 'inspect', 'screenshots'] as const

const share = z.number().min(0).max(1)
const positive = z.number().positive()

const simulatedOptions = z.strictObject({
  /** Price level of its asks: 1 is the base's own. */
  factor: positive.optional(),
  /** How far its buy orders lie below that level. */
  spread: share.optional(),
  /** Share of the base's entries that it ever lists. */
  coverage: share.optional(),
  /** Share of its entries whose price or stock changes within one interval. */
  churn: share.optional(),
  /** Share of its entries that are withdrawn at any moment. */
  unlisted: share.optional(),
  /** Typical listings of an item of ten dollars. */
  stock: positive.optional(),
  /** Whether phased finishes are quoted by phase, or once as a whole; drawn from the seed where left out. */
  phases: z.boolean().optional(),
  /** How many sales there are in a day. */
  per_day: z.number().positive().max(5_000_000).optional(),
  /** Which members its sales have; drawn from the seed where left out. */
  details: z.array(z.enum(SALE_DETAILS)).optional(),
})

const recordedOptions = z.strictObject({
  /** Folder of recorded refreshes; relative to the market file. */
  dir: z.string().min(1),
})

const parameter = z.string().min(1)
const paging = z.discriminatedUnion('by', [
  z.strictObject({
    by: z.literal('page'),
    parameter,
    first: z.int().min(0).default(1),
    /** JSONata on a page: whether another follows. Without it an empty page ends the refresh. */
    more: z.string().optional(),
  }),
  z.strictObject({
    by: z.literal('offset'),
    parameter,
    /** Rows of a full page; a shorter one ends the refresh. */
    step: z.int().min(1),
  }),
  /** `next`: JSONata on a page that gives the next cursor; none ends the refresh. */
  z.strictObject({ by: z.literal('cursor'), parameter, next: z.string().min(1) }),
  /** `next`: JSONata on a page that gives the next page's URL, absolute or relative; none ends the refresh. */
  z.strictObject({ by: z.literal('link'), next: z.string().min(1) }),
])

/** How a provider's HTTP API is polled and read. `${NAME}` in `url` and `headers` comes from the environment. */
const httpJsonOptions = z.strictObject({
  url: z.string().min(1),
  headers: z.record(z.string(), z.string()).default({}),
  paging: paging.optional(),
  /** JSONata on a page: the array of its rows. They reach `mapping` in bounded portions. */
  rows: z.string().min(1).default('$'),
  /** JSONata on an array of rows: an array of {market_hash_name, phase?, price, quantity, url?}. `$page` is the whole page. */
  mapping: z.string().min(1),
  /** JSONata on a page: the currency; the provider's own where left out. */
  currency: z.string().min(1).optional(),
  max_pages: z.int().min(1).max(10_000).default(200),
  /** Bound of a refresh's bodies together, decompressed. */
  max_bytes: z
    .int()
    .min(1)
    .default(64 * 2 ** 20),
  request_timeout_ms: z.int().min(1).default(15_000),
  total_timeout_ms: z.int().min(1).default(120_000),
  /** Tries after the first one, of one request. */
  retries: z.int().min(0).max(20).default(4),
  retry_after_ms: z.int().min(1).default(500),
  max_redirects: z.int().min(0).max(10).default(3),
})

const feed = z.discriminatedUnion('connector', [
  feedOf('simulated', ['ask', 'bid', 'sale'], simulatedOptions),
  feedOf('recorded', ['ask', 'bid'], recordedOptions),
  feedOf('http-json', ['ask', 'bid', 'sale'], httpJsonOptions),
])

function feedOf<Connector extends string, Side extends string, Options extends z.ZodType>(
  connector: Connector,
  sides: readonly [Side, ...Side[]],
  options: Options,
) {
  return z.strictObject({
    provider: z.string().min(1),
    side: z.enum(sides),
    connector: z.literal(connector),
    interval_ms: z
      .int()
      .min(1_000)
      .max(7 * DAY_MS),
    options,
  })
}

const marketFile = z
  .strictObject({
    name: z.string().min(1),
    /** Its registry of providers, where that is not the built-in one; relative to the market file. */
    providers: z.string().min(1).optional(),
    /** Where its exchange rates come from; the package's where left out. */
    fx_url: z.url().optional(),
    /** Recorded refresh from which the simulated feeds derive; relative to the market file. */
    base: z.string().min(1).nullish(),
    seed: z.int().min(0).max(0xffff_ffff).default(1),
    /** How many of the base's names take part, the same ones for every provider; all where left out. */
    items: z.int().min(1).optional(),
    /** Simulated history published before the market goes live. */
    backfill: z
      .strictObject({ days: z.number().min(0).max(400), refreshes_per_day: z.number().positive().max(1_440) })
      .default({ days: 0, refreshes_per_day: 4 }),
    feeds: z.array(feed),
  })
  .superRefine(({ base, feeds }, context) => {
    feeds.forEach(({ provider, side, connector }, i) => {
      const fault = (message: string) => context.addIssue({ code: 'custom', path: ['feeds', i], message })
      if (feeds.findIndex(one => one.provider === provider && one.side === side) < i)
        fault(`${provider} has two feeds of side ${side}`)
      if (connector === 'simulated' && !base) fault(`${provider} is simulated, but "base" is not set`)
    })
  })

export type Market = z.infer<typeof marketFile>
export type SimulatedOptions = z.infer<typeof simulatedOptions>
export type RecordedOptions = z.infer<typeof recordedOptions>
export type HttpJsonOptions = z.infer<typeof httpJsonOptions>

/**
 * Loads a market by the name of a built-in one (`demo`) or by the path of a file (`./my-market.json`).
 * Throws an Error that says what to correct.
 */
export function loadMarket(nameOrPath: string): Market {
  const path = pathOf(nameOrPath)
  if (!existsSync(path)) {
    const names = readdirSync(MARKETS).flatMap(name => (name.endsWith('.json') ? [name.slice(0, -5)] : []))
    throw new Error(`no market ${nameOrPath}: MARKET takes a path, or one of ${names.join(', ')}`)
  }
  return parseMarket(readFileSync(path, 'utf8'), path)
}

/** Variables that a market sets for every role. None where there is no such market: `ingest` reports it. */
export function marketVariables(nameOrPath: string): Record<'MARKETLOG_PROVIDERS' | 'FX_URL', string | undefined> {
  const { providers, fx_url } = existsSync(pathOf(nameOrPath)) ? loadMarket(nameOrPath) : {}
  return { MARKETLOG_PROVIDERS: providers, FX_URL: fx_url }
}

function pathOf(nameOrPath: string): string {
  const isPath = nameOrPath.endsWith('.json') || nameOrPath.includes('/')
  return isPath ? resolve(nameOrPath) : `${MARKETS}${nameOrPath}.json`
}

/** Reads the text of a market file; relative paths in it start from the folder of `path`. */
export function parseMarket(text: string, path: string): Market {
  const market = parseJson(() => text, path, marketFile)
  const full = (relative: string): string => (isAbsolute(relative) ? relative : resolve(dirname(path), relative))
  return {
    ...market,
    ...(market.providers !== undefined && { providers: full(market.providers) }),
    base: market.base ? full(market.base) : market.base,
    feeds: market.feeds.map(one =>
      one.connector === 'recorded' ? { ...one, options: { dir: full(one.options.dir) } } : one,
    ),
  }
}
