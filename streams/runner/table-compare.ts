/** Compares two versions of a view in ClickHouse, part by part of each table, by queries that resolve with the rows that differ. */
import type { ClickhouseWriter } from '#infra/clickhouse/clickhouse.ts'
import type { BuildSource, Comparison, DifferentRows } from './build.ts'
import { EXPIRED, leaveOut, noFindings } from './findings.ts'
import { mergeVersion } from './positions.ts'
import { tableOf, type Version } from './table-versions.ts'
import type { TableView, ViewTable } from './view.ts'

/** A comparison of one part; a text is empty where there is no such row. */
interface PartDifference {
  compared: number
  expired: number
  expiring: number
  rows: [key: string, found: string, expected: string][]
}

/** Of one query. */
const ROWS_AT_ONCE = 500_000
const DIFFERENCES_AT_ONCE = 10_000

/** Compares the version that is read with what the log gives. */
export async function compareTables(
  writer: ClickhouseWriter,
  view: TableView,
  versions: readonly [found: Version, expected: Version],
  sources: readonly BuildSource[],
  report: (step: string) => void,
): Promise<Comparison> {
  const findings = noFindings()
  const different: DifferentRows = new Map()
  for (const table of view.tables) {
    report(`comparing ${table.table.name}`)
    const names = versions.map(version => `${writer.database}.${tableOf(table.table.name, version)}`)
    for (const part of await partsOf(writer, names)) {
      const { compared, expired, expiring, rows } = await comparePart(writer, table, names, part, sources)
      findings.compared += compared - rows.length
      leaveOut(findings, EXPIRED, expired)
      leaveOut(findings, 'are at the end of their retention', expiring)
      for (const [key, found, expected] of rows)
        different.set(`${table.table.name} ${key}`, { found: found || undefined, expected: expected || undefined })
    }
  }
  return { findings, different }
}

/** SQL conditions that cut two tables into parts of which one query compares all rows. */
async function partsOf(writer: ClickhouseWriter, tables: readonly string[]): Promise<((key: string) => string)[]> {
  const counted = tables.map(table => `SELECT _partition_id AS id, count() AS rows FROM ${table} GROUP BY id`)
  const found = await writer.rows<{ id: string; most: number }>(
    `SELECT id, max(rows) AS most FROM (${counted.join(' UNION ALL ')}) GROUP BY id ORDER BY id`,
  )
  return found.flatMap(({ id, most }) => {
    const count = Math.ceil(most / ROWS_AT_ONCE)
    return Array.from(
      { length: count },
      (_, at) => (key: string) => `_partition_id = '${id}' AND cityHash64(${key}) % ${count} = ${at}`,
    )
  })
}

async function comparePart(
  writer: ClickhouseWriter,
  viewTable: ViewTable,
  names: readonly string[],
  part: (key: string) => string,
  sources: readonly BuildSource[],
): Promise<PartDifference> {
  const { orderBy, columns, expires } = viewTable.table
  const row = `toString((${Object.keys(columns).join(', ')}))`
  const expired = restsOnExpired(viewTable, sources) ?? 'false'
  const expiring = expires === undefined ? 'false' : `${expires} < now() + toIntervalHour(1)`
  // Names of columns would be taken for these, were they the same.
  const sides = names.map(
    (name, at) => `SELECT toString(${orderBy}) AS row_key, ${row} AS row_text, ${at} AS is_of_log,
      ${at === 0 ? expired : 'false'} AS row_expired, ${expiring} AS row_expiring
      FROM ${name} FINAL WHERE ${part(orderBy)}`,
  )
  const [found] = await writer.rows<PartDifference>(
    `SELECT countIf(NOT is_expired AND NOT is_expiring) AS compared, countIf(is_expired) AS expired,
      countIf(is_expiring AND NOT is_expired) AS expiring,
      groupArrayIf(${DIFFERENCES_AT_ONCE})((row_key, found, expected), found != expected AND NOT is_expired AND NOT is_expiring) AS rows
    FROM (
      SELECT row_key, arrayStringConcat(groupArrayIf(row_text, is_of_log = 0), ' and ') AS found,
        anyIf(row_text, is_of_log = 1) AS expected, max(row_expired) AS is_expired, max(row_expiring) AS is_expiring
      FROM (${sides.join(' UNION ALL ')}) GROUP BY row_key
    )`,
  )
  return found ?? { compared: 0, expired: 0, expiring: 0, rows: [] }
}

/** SQL: whether a row of a table rests on a record that the log no longer holds; undefined: none does. */
export function restsOnExpired({ origins }: ViewTable, sources: readonly BuildSource[]): string | undefined {
  const conditions = origins.flatMap(({ topic, partition, isBefore }) => {
    // Versions of the first records that the log holds, by partition.
    const first = sources
      .filter(({ source }) => source.topic === topic)
      .map(({ position, log }) => mergeVersion(position, log.start))
    return first.some(each => each > 0) ? [`(${isBefore(`[${first.join(', ')}][${partition} + 1]`)})`] : []
  })
  return conditions.length === 0 ? undefined : conditions.join(' OR ')
}
