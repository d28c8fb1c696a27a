/**
 * The limit of the ClickHouse sinks: inserts of the same rows, already encoded, by the same client.
 *
 * The sinks' own code makes the rows, before the clock starts; they go into tables of the same definition in a database
 * of their own, 100,000 rows an insert, one insert after the other. What is left out is the log, the folding
 * and the encoding.
 */
import type { Batcher } from '#infra/clickhouse/batcher.ts'
import { type ClickhouseWriter, openWriter } from '#infra/clickhouse/clickhouse.ts'
import { setUpClickhouse, type Table } from '#infra/clickhouse/table.ts'
import { databaseName, readConfig } from '#infra/runtime/config.ts'
import { openCandleFold } from '#streams/candles/fold.ts'
import { openHistoryFold } from '#streams/history/fold.ts'
import { VIEWS } from '#streams/views.ts'
import { dropClickhouse } from '#test/harness/remove-namespace.ts'
import { inVersions } from '#test/harness/view-versions.ts'
import { answerAsBaseline, type Measured, measured } from '../baseline.ts'
import { type ReadChange, readChanges, type SinkName, type SinkQuestion } from './read-changes.ts'

type StoredSink = Exclude<SinkName, 'live-view'>
type Question = SinkQuestion & { sink: StoredSink }

const SINKS = { history: openHistoryFold, candles: openCandleFold }
const ROWS_IN_AN_INSERT = 100_000
/** As many as a fetch brings. */
const CHANGES_IN_A_FLUSH = 8_000

/** Counted as a row, where, and which rows are of the round: merging makes one row of those of a key at a time of its own. */
const COUNTED: Record<StoredSink, readonly [key: string, table: string, condition: string][]> = {
  history: [
    ['partition, offset', 'changes', 'seen_at >= fromUnixTimestamp64Milli({since:Int64})'],
    ['item_id, side, provider, day', 'provider_days', 'closing.version >= {first:Int64}'],
  ],
  candles: [
    ['item_id, provider', 'candle_standing', 'at >= {since:Int64}'],
    ['interval_s, item_id, bucket, provider', 'candle_parts', 'closing.at >= {since:Int64}'],
  ],
}

/** Uses the database of the namespace, or the baseline's own beside it. */
async function withWriter<T>(
  environment: Question['environment'],
  suffix: '' | '_direct',
  use: (writer: ClickhouseWriter) => Promise<T>,
): Promise<T> {
  const config = readConfig(environment)
  const database = `${databaseName(config.namespace)}${suffix}`
  const writer = openWriter(config.servers.clickhouse, { database, name: 'baseline' })
  // The baseline's own tables have no versions.
  return use(suffix === '' ? inVersions(writer) : writer).finally(() => writer.close())
}

const write = (question: Question): Promise<Measured> =>
  withWriter(question.environment, '_direct', async writer => {
    await setUpClickhouse(
      writer,
      VIEWS.flatMap(({ tables }) => tables.map(({ table }) => table)),
    )
    const tables = await rowsOf(question.sink, await readChanges(question))
    const inserted = await measured(async () => {
      for (const [{ name, columns }, rows] of tables)
        for (let from = 0; from < rows.length; from += ROWS_IN_AN_INSERT)
          await writer.insert({
            ...{ table: name, columns: Object.keys(columns) },
            rows: rows.slice(from, from + ROWS_IN_AN_INSERT),
          })
      return 0
    })
    return { ...inserted, count: await storedRows(writer, question) }
  })

/** The sinks' metrics are not asked: a row that was confirmed and is not there does not count. */
async function storedRows(writer: ClickhouseWriter, { sink, from, since, providers }: Question): Promise<number> {
  let rows = 0
  for (const [key, table, condition] of COUNTED[sink]) {
    const query = `SELECT uniqExact(${key}) AS n FROM ${writer.database}.${table}
      WHERE provider IN {providers:Array(String)} AND ${condition}`
    const [row] = await writer.rows<{ n: number }>(query, { providers, since, first: Math.min(...from) })
    rows += Number(row?.n)
  }
  return rows
}

/** The rows that a sink makes of changes, by table. */
async function rowsOf(sink: StoredSink, changes: readonly ReadChange[]): Promise<Map<Table, string[]>> {
  const tables = new Map<Table, string[]>()
  const keep: Batcher = {
    async add(buffers) {
      for (const buffer of buffers) tables.set(buffer.table, (tables.get(buffer.table) ?? []).concat(buffer.drain()))
    },
    close: async () => undefined,
  }
  const open = SINKS[sink](keep)
  for (const [at, { partition, offset, change }] of changes.entries()) {
    const position = { topic: 'bookChanges' as const, partition, offset, version: offset, key: String(change.item_id) }
    open.apply({ ...position, event: 'BookChanged', value: change, raw: Buffer.alloc(0), appendedAt: change.seen_at })
    if (at % CHANGES_IN_A_FLUSH === CHANGES_IN_A_FLUSH - 1) await open.flush()
  }
  await open.flush()
  return tables
}

answerAsBaseline({
  write,
  present: (question: Question) => withWriter(question.environment, '', writer => storedRows(writer, question)),
  remove: (environment: Question['environment']) => withWriter(environment, '_direct', dropClickhouse),
})
