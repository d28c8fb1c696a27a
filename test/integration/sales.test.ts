/**
 * Sales from a real log into a real ClickHouse: each once, resolved by the catalog; the rest are unresolved or dead letters.
 */
import { expect } from 'chai'
import { type ClickhouseWriter, openReader, openWriter } from '#infra/clickhouse/clickhouse.ts'
import { setUpClickhouse } from '#infra/clickhouse/set-up-tables.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { openPublisher, type Publisher } from '#infra/kafka/publisher.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { SaleObserved } from '#schemas/events/sale-observed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { countRecentSales, type SaleRow } from '#streams/sales/reader.ts'
import { view as salesView } from '#streams/sales/view.ts'
import { TABLES } from '#streams/views.ts'
import { openTestIngest } from '#test/fixtures/test-ingest.ts'
import { saleRecord, sold } from '#test/harness/published-records.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import { smallCatalog } from '#test/harness/small-catalog.ts'
import { useServers } from '#test/harness/use-servers.ts'

const DAY_MS = 86_400_000

describe('sales', () => {
  const platform = useServers()
  let kafka: KafkaConnection
  let publisher: Publisher
  let clickhouse: ClickhouseWriter
  let items: readonly CatalogItem[]
  const soldAt = Date.now() - 86_400_000

  before(async () => {
    const { config } = platform
    kafka = platform.connect('ingest')
    publisher = await openPublisher(kafka, 'ingest')
    clickhouse = openWriter(config.servers.clickhouse, { database: databaseName(config.namespace), name: 'test' })
    await setUpClickhouse(clickhouse, TABLES)
    items = smallCatalog()
  })
  after(async () => {
    await publisher.close()
    await clickhouse.close()
  })

  const saleOf = (item: Pick<CatalogItem, 'market_hash_name' | 'phase'>, index: number): SaleObserved =>
    sold({
      ...{ market_hash_name: item.market_hash_name, phase: item.phase, provider: `provider_0${1 + (index % 3)}` },
      ...{ sale_id: `s${index}`, price: 1_000 + index, currency: 'CNY', usd_rate: '7.25' },
      ...{ sold_at: soldAt + index, observed_at: soldAt + 60_000, inspect_in_game: 'game://inspect/é' },
      ...{ float: index % 2 === 0 ? 0.123456789 : null, paint_seed: index % 3 === 0 ? 321 : null },
      stickers: index % 4 === 0 ? [{ name: 'Crown (Foil)', slot: 2, wear: 0.5 }] : index % 4 === 1 ? [] : null,
      charms: index % 5 === 0 ? [{ name: 'Hot Hands', pattern_id: 77 }] : null,
    })

  const publish = (sales: readonly SaleObserved[]) => publisher.send(sales.map(sale => saleRecord(kafka.codec, sale)))

  /** The tables' rows, newest first, as readers see them. */
  const rowsIn = async (table: string) => {
    const rows = await clickhouse.rows<SaleRow & { version: number }>(
      `SELECT * REPLACE (toUnixTimestamp64Milli(sold_at) AS sold_at, toUnixTimestamp64Milli(observed_at) AS observed_at)
      FROM ${clickhouse.database}.${table} FINAL ORDER BY sold_at DESC`,
    )
    return rows.map(({ version, ...row }) => row)
  }

  const expected = (sale: SaleObserved, item: CatalogItem): SaleRow => {
    const { market_hash_name, phase, stickers, charms, ...same } = sale
    return {
      ...same,
      item_id: item.item_id,
      price_micro_usd: Math.round((sale.price * 10_000) / 7.25),
      has_stickers: stickers !== null,
      stickers: stickers ?? [],
      has_charms: charms !== null,
      charms: charms ?? [],
    }
  }

  it('are each stored once however often they are reported, the first report winning', async () => {
    const chosen = items.filter((_, index) => index % 5 === 0).slice(0, 60)
    const sales = chosen.map(saleOf)
    await publish(sales)
    const roles = await platform.startRoles([salesView.start])
    await roles.ready()
    await publish(sales.map(sale => ({ ...sale, price: sale.price * 2, observed_at: sale.observed_at + 1 })))
    await publish([saleOf(items[1] ?? expect.fail('no item'), 999)])
    const wanted = [
      ...sales.map((sale, i) => expected(sale, chosen[i] as CatalogItem)),
      expected(saleOf(items[1] as CatalogItem, 999), items[1] as CatalogItem),
    ]
    await platform.drained(['provisional-items'])
    await roles.stop()
    wanted.sort((a, b) => b.sold_at - a.sold_at)
    expect(await rowsIn('sales')).to.deep.equal(wanted)
    expect(await rowsIn('sales_by_time')).to.deep.equal(wanted)
  })

  it('without ids used to be one where several are the same to the moment: each counts, however often lists show it', async () => {
    const random = seededRandom('sales without ids')
    const provider = 'provider_12'
    const chosen = items.slice(0, 3)
    const at = Math.floor(soldAt / DAY_MS) * DAY_MS
    const moments = Array.from({ length: 40 }, (_, i) => at + i * 60_000)
    const listedSales = moments.flatMap(moment =>
      Array.from({ length: random.integer(0, 6) }, () => ({
        ...{ market_hash_name: random.pick(chosen).market_hash_name, price: random.integer(1, 2), sold_at: moment },
      })),
    )
    const nameOf = (sale: object): string => JSON.stringify(sale)
    const ingest = await openTestIngest(kafka)
    for (const until of [...moments.filter(() => random.chance(0.5)), at + DAY_MS]) {
      // All of the last hour, newest first; and a shorter list that may end among identical ones.
      const listed = listedSales.filter(({ sold_at }) => sold_at <= until && sold_at > until - 3_600_000).toReversed()
      for (const entries of [listed, listed.slice(0, random.integer(0, listed.length))]) {
        await ingest.publish({ provider, side: 'sale', observedAt: until, currency: 'USD', entries })
      }
    }
    await ingest.publish({
      provider,
      side: 'sale',
      observedAt: at + DAY_MS,
      currency: 'USD',
      entries: listedSales.toReversed(),
    })
    await ingest.close()
    const roles = await platform.startRoles([salesView.start])
    await platform.drained(['provisional-items'])
    await roles.stop()
    const names = new Map(chosen.map(item => [item.item_id, item.market_hash_name]))
    const expectedNames = listedSales.map(nameOf).toSorted()
    for (const table of ['sales', 'sales_by_time']) {
      const found = (await rowsIn(table)).filter(row => row.provider === provider)
      const stored = found.map(({ item_id, price, sold_at }) =>
        nameOf({ market_hash_name: names.get(item_id), price, sold_at }),
      )
      expect(stored.toSorted(), table).to.deep.equal(expectedNames)
    }
    const reader = openReader(platform.config.servers.clickhouse, {
      ...{ database: databaseName(platform.config.namespace), name: 'test' },
    })
    const counted = await countRecentSales(reader, provider, at + DAY_MS - 1)
    await reader.close()
    const perItem = chosen.map(
      item => listedSales.filter(({ market_hash_name }) => market_hash_name === item.market_hash_name).length,
    )
    expect(chosen.map(item => counted?.get(item.item_id) ?? 0)).to.deep.equal(perItem)
  })
})
