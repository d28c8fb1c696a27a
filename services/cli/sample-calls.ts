/** The text that a live platform prints. Invariant: each command works in a POSIX shell unchanged, with a key whose tier may make the call. */
import { TIERS } from '#infra/config/tiers.ts'
import type { PlatformFile } from './run-directory.ts'

/** Calls to try on a platform, about an item that every market of some size lists. */
export function sampleCalls({ base_url: base, keys }: PlatformFile) {
  const query = "--data-urlencode 'market_hash_name=AK-47 | Redline (Field-Tested)'"
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

export function describePlatform(platform: PlatformFile): string {
  const calls = sampleCalls(platform).map(({ title, command }) => `# ${title}\n${command}\n`)
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
