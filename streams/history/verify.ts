/**
 * Compares single changes and daily closes in ClickHouse with the changes of the log.
 *
 * The cut: changes before the view's position must all be there, each as the log has it; a day carries the versions
 * that it reflects, and must equal the fold of its changes up to those.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { CAME_MEANWHILE, compare, type Findings, leaveOut, noFindings } from '#streams/runner/verify/findings.ts'
import {
  OF_PARTITION,
  type PartitionLog,
  partitionLogs,
  type VersionedChange,
} from '#streams/runner/verify/item-changes.ts'
import { withTables } from '#streams/runner/verify/with-tables.ts'
import type { VerifyTask } from '#streams/runner/view.ts'
import { CHANGES_RETENTION_DAYS, UNPRICED } from './table.ts'

interface StoredChange extends Omit<BookChanged, 'refresh_id' | 'url' | 'source_partition'> {
  offset: number
}

interface StoredDay {
  item_id: number
  side: string
  provider: string
  day: number
  priced: { version: number; price: number; price_micro_usd: number; currency: string }
  closing: { version: number; listed: boolean; quantity: number }
}

const DAY_MS = 86_400_000
/** Whole weeks of rows expire. */
const EDGE_DAYS = 14

/** Compares all partitions. */
export const verifyHistory = (task: VerifyTask): Promise<Findings> =>
  withTables(task, async tables => {
    const findings = noFindings()
    for await (const log of partitionLogs(task.access, tables, 'history')) {
      task.report(`partition ${log.partition}`)
      await compareChanges(tables, log, findings)
      await compareDays(tables, log, findings)
    }
    return findings
  })

async function compareChanges(tables: ClickhouseReader, log: PartitionLog, findings: Findings): Promise<void> {
  const oldest = Date.now() - (CHANGES_RETENTION_DAYS - EDGE_DAYS) * DAY_MS
  const stored = await tables.rows<StoredChange>(
    `SELECT item_id, side, toUnixTimestamp64Milli(seen_at) AS seen_at, provider, change, price, currency,
    price_micro_usd, usd_rate, quantity, previous_micro_usd, previous_quantity, offset
    FROM ${tables.database}.changes FINAL
    WHERE partition = {partition:UInt32} AND offset >= {start:UInt64} AND offset < {end:UInt64}`,
    { partition: log.partition, start: log.start, end: log.reached },
  )
  // A list for each offset: a row with another row's offset must not be hidden by it.
  const found = Map.groupBy(
    stored.map(row => ({ offset: row.offset, text: changeText(row) })),
    ({ offset }) => offset,
  )
  for (const { version: offset, change } of log.changes) {
    const texts = (found.get(offset) ?? []).map(({ text }) => text)
    found.delete(offset)
    if (offset >= log.reached) continue
    const name = `changes ${log.partition}@${offset}`
    const wanted = changeText(change)
    const [own] = texts.splice(Math.max(texts.indexOf(wanted), 0), 1)
    if (own === undefined && change.seen_at < oldest) leaveOut(findings, 'at the end of their retention')
    else compare(findings, name, wanted, own)
    for (const text of texts) compare(findings, name, undefined, text)
  }
  for (const [offset, rows] of found) {
    for (const { text } of rows) compare(findings, `changes ${log.partition}@${offset}`, undefined, text)
  }
}

const changeText = (row: Omit<StoredChange, 'offset' | 'source_offset' | 'source_index'>): string =>
  [
    ...[row.item_id, row.side, row.seen_at, row.provider, row.change, row.price, row.currency, row.price_micro_usd],
    ...[row.usd_rate, row.quantity, row.previous_micro_usd, row.previous_quantity],
  ].join(' ')

async function compareDays(tables: ClickhouseReader, log: PartitionLog, findings: Findings): Promise<void> {
  const days = new Map<string, VersionedChange[]>()
  for (const placed of log.changes) {
    const { item_id, side, provider, seen_at } = placed.change
    const key = `${item_id} ${side} ${provider} ${Math.floor(seen_at / DAY_MS)}`
    const own = days.get(key)
    if (own) own.push(placed)
    else days.set(key, [placed])
  }
  const stored = await tables.rows<StoredDay>(
    `SELECT item_id, side, provider, toUInt16(day) AS day, max(priced) AS priced, max(closing) AS closing
    FROM ${tables.database}.provider_days WHERE ${OF_PARTITION} GROUP BY item_id, side, provider, day`,
    { partition: log.partition },
  )
  for (const row of stored) {
    const key = `${row.item_id} ${row.side} ${row.provider} ${row.day}`
    const own = days.get(key) ?? []
    days.delete(key)
    const { priced, closing } = row
    if (closing.version < 0 || priced.version < UNPRICED) leaveOut(findings, 'rest on history files')
    else if (closing.version >= log.end) leaveOut(findings, CAME_MEANWHILE)
    else if (closing.version < log.start || (priced.version >= 0 && priced.version < log.start)) {
      leaveOut(findings, 'rest on records that the log no longer holds')
    } else {
      const until = own.filter(({ version }) => version <= closing.version || version < log.reached)
      compare(findings, `provider_days ${key}`, dayText(until), storedDayText(row))
    }
  }
  for (const [key, own] of days) {
    if ((own[0]?.version ?? log.reached) < log.reached) {
      compare(findings, `provider_days ${key}`, dayText(own), undefined)
    }
  }
}

function dayText(own: readonly VersionedChange[]): string | undefined {
  const last = own.at(-1)
  if (!last) return undefined
  const priced = own.findLast(({ change }) => change.price !== null)
  const price = priced
    ? [priced.version, priced.change.price, priced.change.price_micro_usd, priced.change.currency].join(' ')
    : 'unpriced'
  return `${price}; ${last.version} ${last.change.price !== null} ${last.change.quantity}`
}

function storedDayText({ priced, closing }: StoredDay): string {
  const { version, price, price_micro_usd, currency } = priced
  const text = version === UNPRICED ? 'unpriced' : [version, price, price_micro_usd, currency].join(' ')
  return `${text}; ${closing.version} ${closing.listed} ${closing.quantity}`
}
