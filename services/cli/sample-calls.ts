/**
 * The text that a live platform prints for its user: address, keys and calls to try, each as one line for a shell.
 *
 * Invariant: every printed command works in a POSIX shell unchanged, whatever the item's name, with a key whose tier may
 * make the call.
 */
import { TIERS } from '#infra/config/tiers.ts'
import type { PlatformFile } from './run-directory.ts'

/** Named when the market has no bids yet. */
const WELL_KNOWN = 'AK-47 | Redline (Field-Tested)'

/** Calls to try on a platform, about an item that it should list. */
export function sampleCalls(platform: PlatformFile, item = WELL_KNOWN) {
  const { base_url: base, keys } = platform
  const query = `--data-urlencode ${quoted(`market_hash_name=${item}`)}`
  const get = (key: string, path: string, ...options: string[]) =>
    ['curl -sG', ...options, `-H "Authorization: Bearer ${key}"`, `"${base}/v1${path}"`].join(' ')
  return [
    { title: 'lowest asks of an item', command: get(keys.free, '/prices', query, '-d limit=3') },
    { title: 'highest bids of it, in euro', command: get(keys.starter, '/bids', query, '-d currency=EUR -d limit=3') },
    { title: 'its hourly candles', command: get(keys.pro, '/prices/candles', query, '-d interval=1h -d lookback=2d') },
    { title: 'its last price changes', command: get(keys.pro, '/prices/history', query, '-d limit=3') },
    { title: 'the last sales', command: get(keys.pro, '/sales', '-d limit=3') },
    {
      title: "an inventory of the game's platform (a stand-in unless you name one)",
      command: get(keys.quant, '/inventory/gamestore/lookup', '-d gamestore_id=demo-trader'),
    },
    { title: 'a live feed of price changes', command: get(keys.quant, '/feed/prices', '-N') },
  ]
}

/** Quoted for a POSIX shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** The text that a start ends with. */
export function describePlatform(platform: PlatformFile, item?: string): string {
  const calls = sampleCalls(platform, item).map(({ title, command }) => `# ${title}\n${command}\n`)
  return [
    '',
    `marketlog is live at ${platform.base_url}`,
    'Open it in a browser: a live price by one of these keys, guides, and the reference.',
    // A fragment is sent to nobody, and the page removes it from its address before it asks for anything.
    `The console, signed in: ${platform.base_url}/console/#key=${platform.keys.quant}`,
    '',
    ...TIERS.map(tier => `  ${tier.padEnd(8)}${platform.keys[tier]}`),
    '',
    ...calls,
  ].join('\n')
}
