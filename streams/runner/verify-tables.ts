/**
 * Compares a view in ClickHouse with the log: the view's own sinks write the log, up to the view's position, into a version that nobody
 * reads, and rows of both are compared.
 *
 * It finds what was lost, doubled or changed in the store; whether the fold is right is the tests' to say. Rows that differ are folded on
 * and compared again, since the role writes rows before their position: what then still differs and has not moved is a difference, what
 * has moved is counted. Invariant: the version that is read is not touched.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { ClickhouseWriter } from '#infra/clickhouse/clickhouse.ts'
import {
  type BuildParts,
  type BuildSource,
  type Filling,
  openFilling,
  readSources,
  restsOnExpired,
  sweep,
  withBuildParts,
} from './build.ts'
import {
  Conflict,
  createVersion,
  dropVersion,
  positionOf,
  readStoredViews,
  type StoredView,
  tableOf,
  type Version,
} from './table-versions.ts'
import { CAME_MEANWHILE, compare, type Findings, leaveOut, noFindings } from './verify/findings.ts'
import type { TableView, VerifyTask, ViewTable } from './view.ts'

/** A row that differs: as the store has it, and as the log gives it; empty: it is not there. */
interface DifferentRow {
  key: string
  found: string
  expected: string
}

/** A comparison of one table. */
interface TableDifference {
  compared: number
  expired: number
  expiring: number
  rows: DifferentRow[]
}

const ROUNDS = 3
/** A role writes a batch and its position within about a second. */
const PAUSE_MS = 2_000
/** Of one query. */
const ROWS_AT_ONCE = 500_000
const DIFFERENCES_AT_ONCE = 10_000

/** Compares all tables of a view; rejects where there is no version, or another one is built meanwhile. */
export async function verifyTables(view: TableView, { config, log, report }: VerifyTask): Promise<Findings> {
  const { signal } = new AbortController()
  return withBuildParts(view, { config, log, signal }, async (parts, within) => {
    const { writer } = parts
    const stored = (await readStoredViews(writer)).of(view.name)
    const { current } = stored
    if (current === undefined) throw new Error(`${view.name} has no version that could be compared`)
    const sources = await readSources(parts, stored)
    const shadow = await createVersion(writer, view)
    const filling = await openFilling(parts, shadow, sources)
    try {
      let different = new Map<string, DifferentRow>()
      let findings = noFindings()
      for (let round = 0; round < ROUNDS; round++) {
        within.throwIfAborted()
        if (round > 0) await pause(PAUSE_MS)
        await foldTo(filling, await storedOf(parts, current), report)
        const before = different
        ;({ findings, different } = await compareAll(parts, current, shadow, sources, report))
        if (different.size === 0) return findings
        if (round === 0) continue
        for (const [name, row] of different)
          if (before.get(name)?.found !== row.found) {
            leaveOut(findings, CAME_MEANWHILE)
            findings.compared -= 1
            different.delete(name)
          }
      }
      for (const [name, { expected, found }] of different) {
        findings.compared -= 1
        compare(findings, name, expected || undefined, found || undefined)
      }
      return findings
    } finally {
      await filling.close()
      await dropVersion(writer, view, shadow)
    }
  })
}

async function storedOf({ view, writer }: BuildParts, current: Version): Promise<StoredView> {
  const stored = (await readStoredViews(writer)).of(view.name)
  if (stored.current?.id !== current.id) throw new Conflict(`another version of ${view.name} is read now`)
  return stored
}

/** Folds the log on to where the view is. */
async function foldTo(filling: Filling, stored: StoredView, report: (step: string) => void): Promise<void> {
  for (const each of filling.sources.values()) {
    const { topicId, next } = positionOf(stored, each.source)?.position ?? each.position
    if (topicId !== each.log.topicId) throw new Error(`it reflects a topic ${each.source.topic} that was deleted`)
    each.stored = { topicId, next }
  }
  await sweep(filling, {
    endOf: async ({ stored: reached, log }) => reached?.next ?? log.start,
    onProgress: records => report(`reading the log: ${records.toLocaleString('en')} records`),
  })
}

async function compareAll(
  { view, writer }: BuildParts,
  current: Version,
  shadow: Version,
  sources: readonly BuildSource[],
  report: (step: string) => void,
): Promise<{ findings: Findings; different: Map<string, DifferentRow> }> {
  const findings = noFindings()
  const different = new Map<string, DifferentRow>()
  for (const table of view.tables) {
    report(`comparing ${table.table.name}`)
    const names = [current, shadow].map(version => `${writer.database}.${tableOf(table.table.name, version)}`)
    for (const part of await partsOf(writer, names)) {
      const { compared, expired, expiring, rows } = await comparePart(writer, table, names, part, sources)
      findings.compared += compared
      leaveOut(findings, 'rest on records that the log no longer holds', expired)
      leaveOut(findings, 'are at the end of their retention', expiring)
      for (const row of rows) different.set(`${table.table.name} ${row.key}`, row)
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
): Promise<TableDifference> {
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
  const [found] = await writer.rows<Omit<TableDifference, 'rows'> & { rows: [string, string, string][] }>(
    `SELECT countIf(NOT is_expired AND NOT is_expiring) AS compared, countIf(is_expired) AS expired,
      countIf(is_expiring AND NOT is_expired) AS expiring,
      groupArrayIf(${DIFFERENCES_AT_ONCE})((row_key, found, expected), found != expected AND NOT is_expired AND NOT is_expiring) AS rows
    FROM (
      SELECT row_key, arrayStringConcat(groupArrayIf(row_text, is_of_log = 0), ' and ') AS found,
        anyIf(row_text, is_of_log = 1) AS expected, max(row_expired) AS is_expired, max(row_expiring) AS is_expiring
      FROM (${sides.join(' UNION ALL ')}) GROUP BY row_key
    )`,
  )
  const { rows = [], ...counts } = found ?? { compared: 0, expired: 0, expiring: 0 }
  return { ...counts, rows: rows.map(([key, stored, expected]) => ({ key, found: stored, expected })) }
}
