/**
 * The versions of the views in ClickHouse: which one is read, and what each reflects of the log. Writer: streams/runner.
 *
 * A version is a set of tables of its own, whose names end with its id. Table view_positions holds a row for each view that names the
 * version that is read (its topic is empty), and a row for each partition of a version with its position. A position is written when
 * ClickHouse has confirmed the rows that it speaks of. Invariants: a row is written on the condition that it follows the row that its
 * writer knows, so an owner that another has followed, or whose server was set back to an earlier time, writes none; a version counts
 * while each of its tables is the one that was made for it, by UUID.
 */
import { createHash, randomBytes } from 'node:crypto'
import type { Batcher } from '#infra/clickhouse/batcher.ts'
import { type ClickhouseReader, type ClickhouseWriter, isMissingTable } from '#infra/clickhouse/clickhouse.ts'
import { createTable, onCluster, type Table } from '#infra/clickhouse/table.ts'
import { topics } from '#schemas/topics.ts'
import { parsePosition, type Source, type ViewPosition } from './positions.ts'
import type { View } from './view.ts'

export const viewPositions: Table = {
  name: 'view_positions',
  writer: 'runner',
  columns: {
    view: 'LowCardinality(String)',
    version: 'String',
    topic: 'LowCardinality(String)',
    partition: 'UInt16',
    /** JSON text of a ViewPosition; where the topic is empty, of a {@link Version}. */
    value: 'String',
    /** One more than the row before it. */
    revision: 'UInt64',
  },
  engine: 'ReplacingMergeTree(revision)',
  orderBy: '(view, version, topic, partition)',
  partitionBy: 'tuple()',
}

export type VersionedView = Pick<View, 'name' | 'topics' | 'tables'>

export interface Version {
  readonly id: string
  /** Table → the UUID of the one that was made for this version. */
  readonly tables: Readonly<Record<string, string>>
}

export interface StoredPosition {
  topic: string
  partition: number
  position: ViewPosition
  revision: number
}

export interface StoredView {
  /** The version that is read, whether or not its tables are there. */
  named: Version | undefined
  /** Of the row that names it; 0 where there is none. */
  revision: number
  /** The version that is read, with all of its tables. */
  current: Version | undefined
  /** Of the named version. */
  positions: readonly StoredPosition[]
}

export const tableOf = (table: string, { id }: Pick<Version, 'id'>): string => `${table}_${id}`

function formOf({ tables }: VersionedView): string {
  const statements = tables.map(({ table }) => createTable('', table))
  return createHash('sha256').update(statements.join()).digest('hex').slice(0, 8)
}

/** Whether a version has the tables that the view declares; one of another form is built again. */
export const isOfForm = (view: VersionedView, version: Version | undefined): version is Version =>
  version?.id.startsWith(`${formOf(view)}_`) ?? false

const NOTHING: StoredView = { named: undefined, revision: 0, current: undefined, positions: [] }

/** Reads what is stored of all views, by name; where there is no table of positions, nothing is. */
export async function readStoredViews(
  reader: ClickhouseReader,
): Promise<{ of(view: string): StoredView; names: string[] }> {
  const { database } = reader
  type Row = {
    view: string
    version: string
    topic: string
    partition: number
    last: [revision: number, value: string]
  }
  const [rows, tables] = await Promise.all([
    reader
      .rows<Row>(
        `SELECT view, version, topic, partition, max((revision, value)) AS last
        FROM ${database}.${viewPositions.name} GROUP BY view, version, topic, partition`,
      )
      .catch(error => {
        if (isMissingTable(error)) return []
        throw error
      }),
    reader.rows<{ name: string; id: string }>(
      'SELECT name, toString(uuid) AS id FROM system.tables WHERE database = {database:String}',
      { database },
    ),
  ])
  const ids = new Map(tables.map(({ name, id }) => [name, id]))
  const isThere = (version: Version): boolean =>
    Object.entries(version.tables).every(([table, id]) => ids.get(tableOf(table, version)) === id)
  const views = new Map<string, StoredView>()
  for (const {
    view,
    topic,
    last: [revision, value],
  } of rows) {
    if (topic !== '') continue
    const named = JSON.parse(value) as Version
    const positions = rows
      .filter(row => row.view === view && row.version === named.id && row.topic !== '')
      .map(row => ({
        topic: row.topic,
        partition: row.partition,
        position: parsePosition(row.last[1]) as ViewPosition,
        revision: row.last[0],
      }))
    views.set(view, { named, revision, current: isThere(named) ? named : undefined, positions })
  }
  return { of: view => views.get(view) ?? NOTHING, names: [...views.keys()] }
}

export const positionOf = ({ positions }: StoredView, { topic, partition }: Source): StoredPosition | undefined =>
  positions.find(row => row.topic === topics[topic].name && row.partition === partition)

export async function createVersion(writer: ClickhouseWriter, view: VersionedView): Promise<Version> {
  const { database, cluster } = writer
  const id = `${formOf(view)}_${randomBytes(4).toString('hex')}`
  for (const { table } of view.tables)
    await writer.command(createTable(database, { ...table, name: tableOf(table.name, { id }) }, cluster))
  const made = await writer.rows<{ name: string; uuid: string }>(
    'SELECT name, toString(uuid) AS uuid FROM system.tables WHERE database = {database:String} AND endsWith(name, {id:String})',
    { database, id },
  )
  const tables = made.map(({ name, uuid }) => [name.slice(0, -id.length - 1), uuid])
  return { id, tables: Object.fromEntries(tables) }
}

/** The row by which a version is the one that is read. */
export const namingRow = (version: Version, { revision: after }: StoredView): NewRow => ({
  version: '',
  topic: '',
  partition: 0,
  value: JSON.stringify(version),
  after,
})

export const positionRow = (
  { id: version }: Version,
  { topic, partition }: Source,
  position: ViewPosition,
  after: number,
): NewRow => ({ version, topic: topics[topic].name, partition, value: JSON.stringify(position), after })

/** Drops all versions of a view but one, those that a kill has left too. */
export async function dropOthers(
  writer: ClickhouseWriter,
  view: VersionedView,
  kept: Version | undefined,
): Promise<void> {
  const { database } = writer
  const names = view.tables.map(({ table }) => table.name)
  const tables = await writer.rows<{ name: string }>(
    'SELECT name FROM system.tables WHERE database = {database:String} AND match(name, {names:String})',
    { database, names: `^(${names.join('|')})_[0-9a-f]{8}_[0-9a-f]{8}$` },
  )
  for (const { name } of tables) if (kept === undefined || !name.endsWith(kept.id)) await dropTable(writer, name)
  await writer.command(
    `DELETE FROM ${database}.${viewPositions.name} WHERE view = {view:String} AND version NOT IN ('', {kept:String})`,
    { view: view.name, kept: kept?.id ?? '' },
  )
}

export async function dropVersion(writer: ClickhouseWriter, view: VersionedView, version: Version): Promise<void> {
  for (const { table } of view.tables) await dropTable(writer, tableOf(table.name, version))
}

const dropTable = ({ command, database, cluster }: ClickhouseWriter, name: string): Promise<void> =>
  command(`DROP TABLE IF EXISTS ${database}.${name}${onCluster(cluster)} SYNC`)

/** The same batcher, whose rows go to the tables of a version. */
export const intoVersion = (batcher: Batcher, version: Version): Batcher => ({
  ...batcher,
  add: buffers => batcher.add(buffers, table => tableOf(table, version)),
})

/** A row of view_positions that follows the one of the revision `after`, 0 where there is none. */
export interface NewRow {
  version: string
  topic: string
  partition: number
  value: string
  after: number
}

/** Writes rows of a view, each on its condition; resolves with whether each was stored. */
export async function writeRows(writer: ClickhouseWriter, view: string, rows: readonly NewRow[]): Promise<boolean[]> {
  const table = `${writer.database}.${viewPositions.name}`
  const params = {
    view,
    versions: rows.map(({ version }) => version),
    topics: rows.map(({ topic }) => topic),
    partitions: rows.map(({ partition }) => partition),
    values: rows.map(({ value }) => value),
    afters: rows.map(({ after }) => after),
  }
  const last = `SELECT version, topic, partition, max((revision, value)) AS last FROM ${table} WHERE view = {view:String}
    GROUP BY version, topic, partition`
  await writer.command(
    `INSERT INTO ${table} (view, version, topic, partition, value, revision)
    SELECT {view:String}, version, topic, partition, value, after + 1 FROM (
      SELECT version, topic, partition, value, after
      FROM (SELECT {versions:Array(String)} AS version, {topics:Array(String)} AS topic, {partitions:Array(UInt16)} AS partition,
        {values:Array(String)} AS value, {afters:Array(UInt64)} AS after)
      ARRAY JOIN version, topic, partition, value, after
    ) AS given LEFT JOIN (${last}) AS stored USING (version, topic, partition) WHERE stored.last.1 = after`,
    params,
  )
  type Stored = Omit<NewRow, 'value' | 'after'> & { last: [revision: number, value: string] }
  const stored = new Map(
    (await writer.rows<Stored>(last, { view })).map(({ version, topic, partition, last: found }) => [
      JSON.stringify([version, topic, partition]),
      found,
    ]),
  )
  return rows.map(({ version, topic, partition, value, after }) => {
    const [revision, text] = stored.get(JSON.stringify([version, topic, partition])) ?? []
    return revision === after + 1 && text === value
  })
}
