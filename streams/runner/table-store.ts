/**
 * Versions of a view in ClickHouse: each is a set of tables of its own (table-versions.ts).
 *
 * A version that is read is followed until its role has taken note of it, so that readers never go back in time.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { openBatcher } from '#infra/clickhouse/batcher.ts'
import { type ClickhouseWriter, openWriter } from '#infra/clickhouse/clickhouse.ts'
import { setUpClickhouse } from '#infra/clickhouse/table.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import {
  type BuildParts,
  type BuildSource,
  type Comparison,
  type DifferentRows,
  sweep,
  type VersionStore,
  type Versions,
} from './build.ts'
import { EXPIRED, leaveOut, noFindings } from './findings.ts'
import { Conflict, mergeVersion, readPartitionLog, rebuiltPosition, sourcesOf } from './positions.ts'
import {
  createVersion,
  dropOthers,
  dropVersion,
  intoVersion,
  isOfForm,
  namingRow,
  positionOf,
  positionRow,
  readStoredViews,
  type StoredView,
  tableOf,
  type Version,
  viewPositions,
  writeRows,
} from './table-versions.ts'
import type { TableView, ViewTable } from './view.ts'

const LULL_MS = 100
/** Readers ask for the version once a second, its role every two seconds. */
const HANDED_OVER_MS = 3_000

export const tableVersions = (view: TableView, config: PlatformConfig): Versions => ({
  view,
  baseTopics: [],
  leaseKeys: [`${config.namespace}build:${view.name}`],
  openStore(parts) {
    const { namespace, servers } = config
    const writer = openWriter(servers.clickhouse, { database: databaseName(namespace), name: 'build' })
    return openTableStore(view, parts, writer)
  },
})

function openTableStore(view: TableView, parts: BuildParts, writer: ClickhouseWriter): VersionStore {
  const batcher = openBatcher(writer, { metrics: parts.metrics, longestWaitMs: LULL_MS })
  let before: StoredView
  let created: Version
  const read = async (): Promise<StoredView> => (await readStoredViews(writer)).of(view.name)
  return {
    async readSources(isMissingOnly) {
      await setUpClickhouse(writer, [viewPositions])
      before = await read()
      if (isMissingOnly && isOfForm(view, before.current)) return []
      return Promise.all(
        sourcesOf(view).map(async source => {
          const stored = positionOf(before, source)?.position
          const log = await readPartitionLog(parts, source, undefined)
          const hasRows = before.current !== undefined
          return { source, stored, hasRows, log, position: rebuiltPosition(stored, log, log.start) }
        }),
      )
    },
    async create() {
      created = await createVersion(writer, view)
    },
    open: ({ source }) => view.open(source.topic, intoVersion(batcher, created), parts.catalog),
    carryOver: async sources => (before.current ? carryOver(writer, view, before.current, created, sources) : 0),
    async switchTo(filling) {
      const reached = [...filling.sources.values()]
      const positions = reached.map(({ source, position }) => positionRow(created, source, position, 0))
      for (const rows of [positions, [namingRow(created, before)]])
        if ((await writeRows(writer, view.name, rows)).includes(false))
          throw new Conflict(`another version of ${view.name} has been built meanwhile`)
      const limit = performance.now() + (before.current ? HANDED_OVER_MS : 0)
      before = { ...before, named: created }
      while (performance.now() < limit) {
        await pause(LULL_MS)
        await sweep(filling)
      }
    },
    dropNew: () => dropVersion(writer, view, created),
    dropOthers: () => dropOthers(writer, view, before.named),
    async readPositions() {
      const stored = await read()
      if (stored.current?.id !== before.current?.id) throw new Conflict(`another version of ${view.name} is read now`)
      return source => positionOf(stored, source)?.position
    },
    compare: (filling, report) =>
      compareTables(writer, view, [before.current as Version, created], [...filling.sources.values()], report),
    async close() {
      await batcher.close()
      await writer.close()
    },
  }
}

/** Copies the rows that rest on expired records from the version before, partition by partition of each table. */
async function carryOver(
  writer: ClickhouseWriter,
  view: TableView,
  before: Version,
  version: Version,
  sources: readonly BuildSource[],
): Promise<number> {
  let carried = 0
  for (const viewTable of view.tables) {
    const { table } = viewTable
    const condition = restsOnExpired(viewTable, sources)
    if (condition === undefined) continue
    const [from, to] = [before, version].map(each => `${writer.database}.${tableOf(table.name, each)}`)
    // What the form before lacks takes its default.
    const present = await writer.rows<{ name: string }>(
      'SELECT name FROM system.columns WHERE database = {database:String} AND table = {table:String}',
      { database: writer.database, table: tableOf(table.name, before) },
    )
    const columns = Object.keys(table.columns)
      .filter(name => present.some(column => column.name === name))
      .join(', ')
    const parts = await writer.rows<{ id: string }>(`SELECT DISTINCT _partition_id AS id FROM ${from}`)
    for (const { id } of parts)
      await writer.command(
        `INSERT INTO ${to} (${columns}) SELECT ${columns} FROM ${from} WHERE _partition_id = '${id}' AND (${condition})`,
      )
    const [row] = await writer.rows<{ rows: number }>(`SELECT count() AS rows FROM ${to}`)
    carried += row?.rows ?? 0
  }
  return carried
}

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

/** Compares the version that is read with what the log gives, part by part of each table, by queries that resolve with what differs. */
async function compareTables(
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
  const parts = await writer.rows<{ id: string; most: number }>(
    `SELECT id, max(rows) AS most FROM (${counted.join(' UNION ALL ')}) GROUP BY id ORDER BY id`,
  )
  return parts.flatMap(({ id, most }) => {
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
function restsOnExpired({ origins }: ViewTable, sources: readonly BuildSource[]): string | undefined {
  const conditions = origins.flatMap(({ topic, partition, isBefore }) => {
    // Versions of the first records that the log holds, by partition.
    const first = sources
      .filter(({ source }) => source.topic === topic)
      .map(({ position, log }) => mergeVersion(position, log.start))
    return first.some(each => each > 0) ? [`(${isBefore(`[${first.join(', ')}][${partition} + 1]`)})`] : []
  })
  return conditions.length === 0 ? undefined : conditions.join(' OR ')
}
