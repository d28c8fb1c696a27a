/**
 * `npm run markets:build`: writes the market files that follow from the registry: demo.json, full.json and empty.json.
 *
 * Reads the registry and markets/base.json.gz. Invariant: the same files give the same content, and every market loads.
 * A market of one's own is a file beside these, written by hand.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import { parseMarket } from '../market.ts'
import { loadProviders, type Provider } from '../providers.ts'

const BASE = 'base.json.gz'
/** The base's thousand best-known names: every AK-47, AWP and case, of knives and weapons what is listed most. Chosen once. */
const BEST_KNOWN = 'best-known.json.gz'
const SEED = 42

interface Scale {
  /** Share of the market's names that a provider lists, from the thinnest to the fullest. */
  coverage: { least: number; most: number }
  /** Live markets run at the registry's pace; a demo is worth watching at a quicker one. */
  speedUp: number
  salesPerDay: number
}

type Side = 'ask' | 'bid' | 'sale'

const providers = loadProviders()
const fileOf = (name: string): URL => new URL(`../markets/${name}`, import.meta.url)
const base = JSON.parse(gunzipSync(readFileSync(fileOf(BASE))).toString()) as { prices: Record<string, number> }

write('demo', {
  base: BEST_KNOWN,
  seed: SEED,
  backfill: { days: 3, refreshes_per_day: 3 },
  feeds: feedsAt({ coverage: { least: 0.5, most: 0.95 }, speedUp: 5, salesPerDay: 1_000 }),
})
write('full', {
  base: BASE,
  seed: SEED,
  items: Object.keys(base.prices).length,
  backfill: { days: 0, refreshes_per_day: 8 },
  // 41 providers with nine of ten names each: about 1.2 million live asks.
  feeds: feedsAt({ coverage: { least: 0.84, most: 0.96 }, speedUp: 1, salesPerDay: 4_000 }),
})
write('empty', { base: null, seed: SEED, backfill: { days: 0, refreshes_per_day: 8 }, feeds: [] })

function feedsAt(scale: Scale): object[] {
  return providers.all.flatMap((provider, index) => sidesOf(provider).map(side => feedOf(provider, side, index, scale)))
}

function sidesOf({ features }: Provider): Side[] {
  return [
    'ask',
    ...(features.has_buy_orders ? ['bid' as const] : []),
    ...(features.has_recent_sales ? ['sale' as const] : []),
  ]
}

/** Spreads the providers evenly over each range, in orders that do not move together. */
function feedOf(provider: Provider, side: Side, index: number, scale: Scale): object {
  const count = providers.all.length
  const along = (stride: number, least: number, most: number) =>
    Number((least + ((most - least) * ((index * stride) % count)) / (count - 1)).toFixed(3))
  const isTrading = provider.market_type === 'TRADING'
  const level = {
    factor: isTrading ? along(7, 1.05, 1.2) : along(7, 0.88, 1.06),
    coverage: along(17, scale.coverage.least, scale.coverage.most),
  }
  const book = { ...level, churn: along(5, 0.04, 0.16), stock: Math.round(along(13, 2, 24)) }
  const options = {
    ask: book,
    bid: { ...book, spread: along(11, 0.03, 0.12) },
    sale: { ...level, per_day: scale.salesPerDay },
  }
  const interval = side === 'sale' ? provider.sales_interval_ms : provider.refresh_interval_ms
  return {
    provider: provider.key,
    side,
    connector: 'simulated',
    interval_ms: Math.round((interval ?? provider.refresh_interval_ms) / scale.speedUp),
    options: options[side],
  }
}

function write(name: string, market: { feeds: object[]; [member: string]: unknown }): void {
  const path = fileURLToPath(fileOf(`${name}.json`))
  const text = `${JSON.stringify({ name, ...market }, null, 2)}\n`
  parseMarket(text, path)
  writeFileSync(path, text)
  console.log(`${name}: ${market.feeds.length} feeds`)
}
