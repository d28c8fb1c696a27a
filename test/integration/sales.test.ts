import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import type { SaleObserved } from '#schemas/events/sale-observed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import type { SaleRow } from '#streams/sales/reader.ts'
import { view as salesView } from '#streams/sales/view.ts'
import { useClickhouse } from '#test/fixtures/use-clickhouse.ts'
import { saleRecord, sold } from '#test/harness/published-records.ts'
import { smallCatalog } from '#test/harness/small-catalog.ts'
import { useServers } from '#test/harness/use-servers.ts'

describe('sales', () => {
  const platform = useServers()
  const clickhouse = useClickhouse(platform)
  let kafka: KafkaConnection
  let publisher: Publisher
  const items = smallCatalog()
  const soldAt = Date.now() - DAY_MS

  before(async () => {
    kafka = platform.connect('ingest')
    publisher = await platform.openPublisher(kafka, 'ingest')
  })

  const saleOf = (item: Pick<CatalogItem, 'market_hash_name' | 'phase'>, index: number): SaleObserved =>
    sold({
      market_hash_name: item.market_hash_name,
      phase: item.phase,
      provider: `provider_0${1 + (index % 3)}`,
      sale_id: `s${index}`,
      price: 1_000 + index,
      currency: 'CNY',
      usd_rate: '7.25',
      sold_at: soldAt + index,
      observed_at: soldAt + 60_000,
      inspect_in_game: 'game://inspect/é',
      float: index % 2 === 0 ? 0.123456789 : null,
      paint_seed: index % 3 === 0 ? 321 : null,
      stickers: index % 4 === 0 ? [{ name: 'Crown (Foil)', slot: 2, wear: 0.5 }] : index % 4 === 1 ? [] : null,
      charms: index % 5 === 0 ? [{ name: 'Hot Hands', pattern_id: 77 }] : null,
    })

  const publish = (sales: readonly SaleObserved[]) => publisher.send(sales.map(sale => saleRecord(kafka.codec, sale)))

  const rowsIn = async (table: string) => {
    const rows = await clickhouse.writer.rows<SaleRow & { version: number }>(
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
    const other = items[1] ?? expect.fail('no item')
    await publish([saleOf(other, 999)])
    const wanted = [...chosen.map((item, i) => expected(saleOf(item, i), item)), expected(saleOf(other, 999), other)]
    await platform.drained(['sales'])
    await roles.stop()
    wanted.sort((a, b) => b.sold_at - a.sold_at)
    expect(await rowsIn('sales')).to.deep.equal(wanted)
    expect(await rowsIn('sales_by_time')).to.deep.equal(wanted)
  })
})
