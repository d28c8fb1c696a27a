/**
 * The daily values of a ledger of 10,000 entries over five years, cold and page by page, and the import of a file of 5 MB. On a platform of
 * its own: 500 items that three providers close every other day. Cold means that nothing of the ledger's version is known: each turn writes
 * first.
 */
import { loadCatalog } from '#infra/config/catalog.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { largeLedger } from '#test/fixtures/malformed-csv.ts'
import { eventually } from '#test/harness/eventually.ts'
import type { Bench } from '../bench.ts'
import { askAs, type BenchPlatform } from '../bench-platform.ts'
import { entryOf, percentile, requireSome } from '../entry.ts'

const ENTRIES = 10_000
const ITEMS = 500
const DAYS = 1_826
const FILE_BYTES = 5 * 1024 * 1024
const PAGES = 200

export const portfolio: Bench = {
  name: 'portfolio',
  about: 'daily values of a ledger of 10,000 entries over five years, the import of 5 MB',
  async run(context) {
    const platform = await context.platform()
    const today = Math.floor(Date.now() / DAY_MS)
    const items = loadCatalog()
      .filter(item => item.phase === null && !item.market_hash_name.includes(','))
      .slice(0, ITEMS)
    const itemIds = items.map(item => item.item_id)
    // They keep the tables of an empty log: those that nobody keeps are not served.
    for (const role of ['history', 'fx'] as const) await (await platform.role(role)).ready()
    context.say('writing five years of closes')
    await writeCloses(platform, itemIds, today)
    const api = await platform.role('api')
    await api.ready()
    const client = clientOf(`${api.url}/v1/portfolio`, await platform.newKey())

    context.say('importing the ledger')
    const id = await client.create()
    await client.upload(id, ledgerOf(itemIds, today))
    await eventually(() => client.timed(`/${id}/history?currency=EUR&limit=1`), 'the tables to be served')
    const cold: number[] = []
    for (let turn = 0; turn < (context.isQuick ? 1 : 3); turn++) {
      await client.touch(id, itemIds[turn] ?? 0)
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
      entryOf(`daily values of ${ENTRIES} entries over ${DAYS} days, cold`, 'ms', cold),
      entryOf('a page of daily values, p99', 'ms', percentile(pages, 0.99)),
      entryOf('import of a file of 5 MB', 'ms', imported),
    ]
  },
}

/** Closes of every other day of three providers, and a rate for every day. */
async function writeCloses(platform: BenchPlatform, itemIds: readonly number[], today: number): Promise<void> {
  const { command, database } = platform.openTables()
  const day = `toDate(${today - DAYS} + 2 * (number % ${DAYS / 2}))`
  for (const provider of ['provider_02', 'provider_05', 'provider_33']) {
    const price = `toInt64(500 + cityHash64(number, item_id, '${provider}') % 9000)`
    await command(`INSERT INTO ${database}.provider_days
      SELECT item_id, 'ask', '${provider}', ${day},
        CAST((number + 1, ${price}, ${price} * 10000, 'USD') AS Tuple(version Int64, price Int64, price_micro_usd Int64, currency String)),
        CAST((number + 1, true, 3) AS Tuple(version Int64, listed Bool, quantity Int32))
      FROM numbers(${DAYS / 2}) AS days CROSS JOIN (SELECT arrayJoin([${itemIds.join()}]) AS item_id) AS items`)
  }
  await command(`INSERT INTO ${database}.fx_days (day, currency, rate, as_of)
    SELECT toDate(${today - DAYS} + number), 'EUR', toString(0.85 + number / 100000), now64() FROM numbers(${DAYS + 1})`)
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
  const ask = (path: string, init?: RequestInit): Promise<string> => askAs(key, base + path, init)
  const post = (path: string, body: object) => ask(path, { method: 'POST', body: JSON.stringify(body) })
  return {
    /** Milliseconds of an answer that has values. */
    async timed(path: string): Promise<number> {
      const startedAt = performance.now()
      const text = await ask(path)
      const ms = performance.now() - startedAt
      requireSome(`daily values of ${path}`, (JSON.parse(text) as { data: unknown[] }).data.length)
      return ms
    },
    create: async (): Promise<string> => JSON.parse(await post('', { name: 'bench' })).id,
    touch: (id: string, itemId: number) =>
      post(`/${id}/transactions`, { item_id: itemId, type: 'buy', quantity: 1, price: 1, date: '2025-01-01' }),
    async upload(id: string, file: Buffer): Promise<number> {
      const body = new FormData()
      body.set('file', new Blob([new Uint8Array(file)]), 'ledger.csv')
      const startedAt = performance.now()
      await ask(`/${id}/import/csv`, { method: 'POST', body })
      return performance.now() - startedAt
    },
  }
}
