/**
 * Compares both tables of sales in ClickHouse with the sales of the log.
 *
 * The cut is the view's position. Of several sightings of a sale the first in the log counts. Invariant: a sale
 * whose name the catalog knows by now, but did not when the role read it, shows as missing: `rebuild sales` adds it.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import { decodeUnlessPoison, rangesOf } from '#infra/kafka/log-access.ts'
import { scanTopic } from '#infra/kafka/topic-scan.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import type { SaleObserved } from '#schemas/events/sale-observed.ts'
import { topics } from '#schemas/topics.ts'
import { CLOCK_SLACK_MS } from '#schemas/values/event-time.ts'
import { parseRate, toMicroUsd } from '#schemas/values/money.ts'
import { unstorable } from '#schemas/values/storable.ts'
import { mergeVersion } from '#streams/runner/positions.ts'
import { CAME_MEANWHILE, compare, type Findings, leaveOut, noFindings } from '#streams/runner/verify/findings.ts'
import { viewPosition } from '#streams/runner/verify/item-changes.ts'
import { withTables } from '#streams/runner/verify/with-tables.ts'
import type { VerifyTask } from '#streams/runner/view.ts'
import type { SaleRow } from './table.ts'

interface Expected {
  offset: number
  text: string
}

const TABLES = ['sales', 'sales_by_time']

/** Compares all sales. */
export async function verifySales(task: VerifyTask): Promise<Findings> {
  const catalog = await openCatalogReader(task.access.kafka)
  const compareAll = (tables: ClickhouseReader): Promise<Findings> => compareSales(task, tables, catalog.idOf)
  return withTables(task, compareAll).finally(() => catalog.close())
}

async function compareSales(
  { access }: VerifyTask,
  tables: ClickhouseReader,
  idOf: CatalogReader['idOf'],
): Promise<Findings> {
  const findings = noFindings()
  const partitions = Array.from({ length: topics.sales.partitions }, (_, partition) => partition)
  const reached = await Promise.all(
    partitions.map(partition => viewPosition(tables, 'sales', { topic: 'sales', partition })),
  )
  const { topic, ranges } = await rangesOf(access, 'sales', undefined)
  const expected = new Map<string, Expected>()
  for await (const page of scanTopic(access.reader, topic, ranges)) {
    for (const { partition, offset, timestamp, value } of page) {
      if (value === null || offset >= (reached[partition]?.next ?? 0)) continue
      const decoded = await decodeUnlessPoison(access.kafka.codec, value)
      if (decoded?.event !== 'SaleObserved') continue
      const sale: SaleObserved = decoded.value
      const itemId = idOf(sale.market_hash_name, sale.phase)
      const micro = microOf(sale)
      const isEarly = Math.max(sale.sold_at, sale.observed_at) - timestamp > CLOCK_SLACK_MS
      if (itemId === undefined || micro === undefined || isEarly || unstorable(itemId, sale.sold_at)) {
        leaveOut(findings, 'have no row: name, price or time')
        continue
      }
      const key = `${itemId} ${sale.sold_at} ${sale.provider} ${sale.sale_id}`
      if (!expected.has(key)) expected.set(key, { offset, text: saleText(sale, micro) })
    }
  }
  const versions = reached.map(position => mergeVersion(position, position.next))
  const isWhole = [...ranges.values()].every(({ from }) => from === 0) && reached.every(({ generation }) => !generation)
  const log = { expected, isWhole, reached: Math.min(...versions) }
  for (const table of TABLES) await compareTable(tables, table, log, findings)
  return findings
}

async function compareTable(
  tables: ClickhouseReader,
  table: string,
  log: { expected: ReadonlyMap<string, Expected>; isWhole: boolean; reached: number },
  findings: Findings,
): Promise<void> {
  const stored = await tables.rows<SaleRow & { version: number }>(
    `SELECT * REPLACE (toUnixTimestamp64Milli(sold_at) AS sold_at, toUnixTimestamp64Milli(observed_at) AS observed_at)
    FROM ${tables.database}.${table} FINAL`,
  )
  const found = new Set<string>()
  for (const row of stored) {
    const key = `${row.item_id} ${row.sold_at} ${row.provider} ${row.sale_id}`
    const expected = log.expected.get(key)
    found.add(key)
    if (expected) compare(findings, `${table} ${key}`, expected.text, storedText(row))
    else if (Number.MAX_SAFE_INTEGER - row.version >= log.reached) leaveOut(findings, CAME_MEANWHILE)
    else if (!log.isWhole) leaveOut(findings, 'may rest on records that the log no longer holds')
    else compare(findings, `${table} ${key}`, undefined, storedText(row))
  }
  for (const [key, { text }] of log.expected) {
    if (!found.has(key)) compare(findings, `${table} ${key}`, text, undefined)
  }
}

function microOf({ price, usd_rate }: SaleObserved): number | undefined {
  const rate = parseRate(usd_rate)
  if (rate === undefined || !(price > 0)) return undefined
  try {
    return toMicroUsd(price, rate)
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

const saleText = (sale: SaleObserved, micro: number): string =>
  JSON.stringify([
    ...[sale.price, sale.currency, micro, sale.usd_rate, sale.float, sale.paint_seed, sale.observed_at],
    ...[plain(sale.stickers), plain(sale.charms), sale.inspect_in_game, sale.screenshot_front, sale.screenshot_back],
  ])

const storedText = (row: SaleRow): string =>
  JSON.stringify([
    ...[row.price, row.currency, row.price_micro_usd, row.usd_rate, row.float, row.paint_seed, row.observed_at],
    ...[row.has_stickers ? plain(row.stickers) : null, row.has_charms ? plain(row.charms) : null],
    ...[row.inspect_in_game, row.screenshot_front, row.screenshot_back],
  ])

/** Members in the order of their names. */
const plain = (list: readonly object[] | null): unknown =>
  list?.map(one => Object.entries(one).toSorted(([a], [b]) => a.localeCompare(b))) ?? null
