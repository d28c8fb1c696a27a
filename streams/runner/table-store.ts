/**
 * Versions of a view in ClickHouse: each is a set of tables of its own (table-versions.ts).
 *
 * A version that is read is followed until its role has taken note of it, so that readers never go back in time.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { openBatcher } from '#infra/clickhouse/batcher.ts'
import { type ClickhouseWriter, openWriter } from '#infra/clickhouse/clickhouse.ts'
import { setUpClickhouse } from '#infra/clickhouse/set-up-tables.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import { type BuildParts, type BuildSource, sweep, type VersionStore, type Versions } from './build.ts'
import { readPartitionLog } from './partition-log.ts'
import { Conflict, rebuiltPosition, sourcesOf } from './positions.ts'
import { compareTables, restsOnExpired } from './table-compare.ts'
import {
  createVersion,
  dropOthers,
  dropVersion,
  intoVersion,
  isOfForm,
  positionOf,
  readStoredViews,
  type StoredView,
  switchTo,
  tableOf,
  type Version,
  viewPositions,
  writePositions,
} from './table-versions.ts'
import type { TableView } from './view.ts'

const LULL_MS = 100
/** Readers ask for the version once a second, its role every two seconds. */
const HANDED_OVER_MS = 3_000

/** The versions of a view. */
export const tableVersions = (view: TableView, config: PlatformConfig): Versions => ({
  ...{ view, baseTopics: [], leaseKeys: [`${config.namespace}build:${view.name}`] },
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
      const positions = reached.map(({ source, position }) => ({ version: created, source, position, after: 0 }))
      const refused = await writePositions(writer, view.name, positions)
      if (refused.length > 0) throw new Conflict(`positions of the new version of ${view.name} could not be written`)
      await switchTo(writer, view.name, created, before)
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
    compare: (filling, _, report) =>
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
