/**
 * Portfolios at their size: the daily values of a ledger of 10,000 entries over five years, cold and page by page, and the
 * import of a file of 5 MB.
 *
 * A platform of its own, since the live market has no part in it: 500 items that three providers close every other day, with
 * the exchange rates of every day. Cold means that nothing of the ledger's version is known: each turn writes first.
 */
import { openWriter } from '#infra/clickhouse/clickhouse.ts'
import { loadCatalog } from '#infra/config/catalog.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { largeLedger } from '#test/fixtures/malformed-csv.ts'
import { newKey } from '../account-keys.ts'
import type { Bench, BenchContext, Entry } from '../bench.ts'
import type { BenchPlatform } from '../bench-platform.ts'
import { figureEntry } from '../entry.ts'
import { requireSome } from '../requirements.ts'
import { median, percentile } from '../statistics.ts'

const ENTRIES = 10_000
const ITEMS = 500
const DAYS = 1_826
const FILE_BYTES = 5 * 1024 * 1024
const PAGES = 200
const DAY_MS = 86_400_000

/** Portfolios. */
export const portfolio: Bench = {
  name: 'portfolio',
  about: 'daily values of a ledger of 10,000 entries over five years, the import of 5 MB',
  async run(context) {
    context.say('setting a namespace up')
    const platform = await context.platform()
    try {
      return await measure(context, platform)
    } finally {
      await platform.close()
    }
  },
}

async function measure(context: BenchContext, platform: BenchPlatform): Promise<Entry[]> {
  const today = Math.floor(Date.now() / DAY_MS)
  const items = loadCatalog()
    .filter(item => item.phase === null && !item.market_hash_name.includes(','))
    .slice(0, ITEMS)
  context.say('writing five years of closes')
  await writeCloses(
    platform,
    items.map(item => item.item_id),
    today,
  )
  const api = await platform.role('api')
  await api.ready()
  const client = clientOf(`${api.baseUrl}/v1/portfolio`, await newKey(platform))

  context.say('importing the ledger')
  const id = await client.create()
  await client.upload(
    id,
    ledgerOf(
      items.map(item => item.item_id),
      today,
    ),
  )
  const cold: number[] = []
  for (let turn = 0; turn < (context.isQuick ? 1 : 3); turn++) {
    await client.touch(id, items[turn]?.item_id ?? 0)
    cold.push(await client.timed(`/${id}/history?currency=EUR&limit=2000`))
  }
  const pages: number[] = []
  for (let page = 0; page < (context.isQuick ? 20 : PAGES); page++) {
    const from = new Date((today - DAYS + 10 + ((page * 7) % 1_400)) * DAY_MS).toISOString().slice(0, 10)
    pages.push(await client.timed(`/${id}/history?currency=EUR&limit=365&start_date=${from}`))
  }
  const { file, rows } = largeLedger(
    FILE_BYTES,
    items.map(item => item.market_hash_name),
  )
  context.say(`importing ${rows} rows`)
  const imported: number[] = []
  for (let turn = 0; turn < (context.isQuick ? 1 : 3); turn++) {
    const other = await client.create()
    imported.push(await client.upload(other, file))
  }
  return [
    figureEntry(
      { name: `daily values of ${ENTRIES} entries over ${DAYS} days, cold`, unit: 'ms', better: 'lower' },
      cold,
    ),
    figureEntry({ name: 'a page of daily values, p50', unit: 'ms', better: 'lower' }, median(pages)),
    figureEntry({ name: 'a page of daily values, p99', unit: 'ms', better: 'lower' }, percentile(pages, 0.99)),
    figureEntry({ name: 'import of a file of 5 MB', unit: 'ms', better: 'lower' }, imported),
  ]
}

/** Closes of every other day of three providers, and a rate for every day. */
async function writeCloses({ config }: BenchPlatform, itemIds: readonly number[], today: number): Promise<void> {
  const writer = openWriter(config.servers.clickhouse, { database: databaseName(config.namespace), name: 'bench' })
  const day = `toDate(${today - DAYS} + 2 * (number % ${DAYS / 2}))`
  try {
    for (const provider of ['provider_02', 'provider_05', 'provider_33']) {
      const price = `toInt64(500 + cityHash64(number, item_id, '${provider}') % 9000)`
      await writer.command(`INSERT INTO ${writer.database}.provider_days
        SELECT item_id, 'ask', '${provider}', ${day},
          CAST((number + 1, ${price}, ${price} * 10000, 'USD') AS Tuple(version Int64, price Int64, price_micro_usd Int64, currency String)),
          CAST((number + 1, true, 3) AS Tuple(version Int64, listed Bool, quantity Int32))
        FROM numbers(${DAYS / 2}) AS days CROSS JOIN (SELECT arrayJoin([${itemIds.join()}]) AS item_id) AS items`)
    }
    await writer.command(`INSERT INTO ${writer.database}.fx_days
      SELECT toDate(${today - DAYS} + number), 'EUR', toString(0.85 + number / 100000), now64() FROM numbers(${DAYS + 1})`)
  } finally {
    await writer.close()
  }
}

/** Buys and sells over the whole time: of four entries of an item three buy and the last sells. */
function ledgerOf(itemIds: readonly number[], today: number): Buffer {
  const lines = ['date,type,item_id,quantity,price']
  for (let i = 0; i < ENTRIES; i++) {
    const day = new Date((today - DAYS + Math.floor((i * DAYS) / ENTRIES)) * DAY_MS).toISOString().slice(0, 10)
    const type = Math.floor(i / itemIds.length) % 4 === 3 ? 'sell' : 'buy'
    lines.push(`${day},${type},${itemIds[i % itemIds.length]},${type === 'buy' ? 2 : 3},${100 + i}`)
  }
  return Buffer.from(`${lines.join('\n')}\n`)
}

function clientOf(base: string, key: string) {
  const headers = { authorization: `Bearer ${key}` }
  const ask = async (path: string, init: RequestInit = {}): Promise<string> => {
    const answer = await fetch(base + path, { ...init, headers: { ...headers, ...(init.headers as object) } })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${text.slice(0, 200)}`)
    return text
  }
  const timed = async (path: string, init?: RequestInit): Promise<number> => {
    const startedAt = performance.now()
    const text = await ask(path, init)
    const ms = performance.now() - startedAt
    if (!init) requireSome(`daily values of ${path}`, (JSON.parse(text) as { data: unknown[] }).data.length)
    return ms
  }
  const post = (body: object) => ({
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
  })
  return {
    timed: (path: string) => timed(path),
    create: async (): Promise<string> => JSON.parse(await ask('', post({ name: 'bench' }))).id,
    /** Gives the ledger a new version. */
    touch: (id: string, itemId: number) =>
      ask(`/${id}/transactions`, post({ item_id: itemId, type: 'buy', quantity: 1, price: 1, date: '2025-01-01' })),
    upload(id: string, file: Buffer): Promise<number> {
      const body = new FormData()
      body.set('file', new Blob([new Uint8Array(file)]), 'ledger.csv')
      return timed(`/${id}/import/csv`, { method: 'POST', body })
    },
  }
}
