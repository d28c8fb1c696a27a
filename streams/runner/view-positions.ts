/**
 * view_positions: what each view in ClickHouse reflects of the partitions that it reads, and in which tables. Writer: streams/runner.
 *
 * A row is written when ClickHouse has confirmed the rows that it speaks of, on the condition that it follows the row that its writer
 * knows. Invariants: a position counts for the tables whose UUIDs it names alone, so one of tables that were dropped is none; an owner
 * that another has followed, or whose server was set back to an earlier time, writes no position.
 *
 * A position that names more tables than are there is of a view whose rebuild exchanges them: it counts for both.
 */
import { type ClickhouseReader, type ClickhouseWriter, isMissingTable } from '#infra/clickhouse/clickhouse.ts'
import type { Table } from '#infra/clickhouse/table.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { parsePosition, type Source, type ViewPosition } from './positions.ts'

/** The table's definition. */
export const viewPositions: Table = {
  name: 'view_positions',
  writer: 'runner',
  columns: {
    view: 'LowCardinality(String)',
    topic: 'LowCardinality(String)',
    partition: 'UInt16',
    /** The JSON text of a {@link ViewPosition}. */
    position: 'String',
    /** Name and UUID of each. */
    tables: 'Array(String)',
    /** How many the view reads of all its topics. */
    partitions: 'UInt16',
    /** One more than the row before it. */
    revision: 'UInt64',
  },
  engine: 'ReplacingMergeTree(revision)',
  orderBy: '(view, topic, partition)',
  partitionBy: 'tuple()',
}

/** What has tables whose positions are kept here. */
export interface PositionedView {
  readonly name: string
  readonly topics: readonly TopicKey[]
  readonly tables: readonly { readonly table: Table }[]
}

/** A stored row. */
export interface StoredPosition {
  view: string
  /** Its name, not its key. */
  topic: string
  partition: number
  position: ViewPosition
  /** Each as {@link tableText} writes it. */
  tables: readonly string[]
  partitions: number
  revision: number
}

/** What is stored of all views, and the tables that are there. */
export interface StoredPositions {
  readonly rows: readonly StoredPosition[]
  of(view: string, source: Source): StoredPosition | undefined
  /** The UUID of a table. */
  idOf(table: string): string | undefined
  /** The tables of a view that are there, as {@link tableText} writes them. */
  tablesOf(view: PositionedView): readonly string[]
}

/** A table as a row names it. */
export const tableText = (name: string, id: string | undefined): string => `${name} ${id}`

const nameOf = (view: string, topic: string, partition: number): string => `${view} ${topic} ${partition}`

/** Tells the partitions of a view apart. */
export const sourceName = ({ topic, partition }: Source): string => `${topic}-${partition}`

/** Reads what is stored of all views; where there is no table of positions, nothing is. */
export async function readViewPositions(reader: ClickhouseReader): Promise<StoredPositions> {
  const { database } = reader
  const [rows, found] = await Promise.all([
    reader
      .rows<{
        view: string
        topic: string
        partition: number
        last: [revision: number, position: string, tables: string[], partitions: number]
      }>(
        `SELECT view, topic, partition, max((revision, position, tables, partitions)) AS last
        FROM ${database}.${viewPositions.name} GROUP BY view, topic, partition`,
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
  const ids = new Map(found.map(({ name, id }) => [name, id]))
  const stored = new Map(
    rows.map(({ view, topic, partition, last: [revision, text, tables, partitions] }) => {
      const position = parsePosition(text) as ViewPosition
      const row: StoredPosition = { view, topic, partition, position, tables, partitions, revision }
      return [nameOf(view, topic, partition), row]
    }),
  )
  return {
    rows: [...stored.values()],
    idOf: table => ids.get(table),
    of: (view, { topic, partition }) => stored.get(nameOf(view, topics[topic].name, partition)),
    tablesOf: ({ tables }) =>
      tables.flatMap(({ table: { name } }) => (ids.has(name) ? [tableText(name, ids.get(name))] : [])),
  }
}

/** Whether a position counts for the tables of a view. */
export function countsFor(
  { tables }: Pick<StoredPosition, 'tables'>,
  view: PositionedView,
  present: readonly string[],
): boolean {
  return present.length === view.tables.length && present.every(id => tables.includes(id))
}

/** The partitions of the log that a view reads. */
export const sourcesOf = ({ topics: read }: PositionedView): Source[] =>
  read.flatMap(topic => Array.from({ length: topics[topic].partitions }, (_, partition) => ({ topic, partition })))

/** A row that follows the one of a revision, 0 where there is none. */
export interface NewPosition extends Pick<StoredPosition, 'position' | 'tables'> {
  source: Source
  after: number
}

/** Another owner, or a rebuild, has written the position of a partition, or the server was set back. */
export class PositionMoved extends Error {
  constructor(view: string, { topic, partition }: Source) {
    super(`the position of ${view} in ${topics[topic].name}-${partition} is not the one that was left there`)
  }
}

/** Writes positions of a view, each on its condition; resolves with those that were refused. */
export async function writeViewPositions(
  writer: ClickhouseWriter,
  view: PositionedView,
  rows: readonly NewPosition[],
): Promise<NewPosition[]> {
  const table = `${writer.database}.${viewPositions.name}`
  const texts = rows.map(({ position }) => JSON.stringify(position))
  await writer.command(
    `INSERT INTO ${table} (view, topic, partition, position, tables, partitions, revision)
    SELECT {view:String}, topic, partition, position, tables, {count:UInt16}, after + 1 FROM (
      SELECT topic, partition, position, tables, after
      FROM (SELECT {topics:Array(String)} AS topic, {partitions:Array(UInt16)} AS partition, {texts:Array(String)} AS position,
        {tables:Array(Array(String))} AS tables, {afters:Array(UInt64)} AS after)
      ARRAY JOIN topic, partition, position, tables, after
    ) AS given LEFT JOIN (
      SELECT topic, partition, max(revision) AS revision FROM ${table} WHERE view = {view:String} GROUP BY topic, partition
    ) AS stored USING (topic, partition) WHERE stored.revision = after`,
    {
      view: view.name,
      count: sourcesOf(view).length,
      topics: rows.map(({ source }) => topics[source.topic].name),
      partitions: rows.map(({ source }) => source.partition),
      texts,
      tables: rows.map(({ tables }) => tables),
      afters: rows.map(({ after }) => after),
    },
  )
  const stored = await readViewPositions(writer)
  return rows.filter(({ source, after }, at) => {
    const found = stored.of(view.name, source)
    return found?.revision !== after + 1 || JSON.stringify(found.position) !== texts[at]
  })
}
