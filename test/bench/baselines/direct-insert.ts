/**
 * The limit of the ClickHouse sinks: inserts of the same rows, already encoded by the sinks' own code, into tables of the same definition,
 * 100,000 rows an insert. What is left out is the log, the folding and the encoding.
 */
import type { Batcher } from '#infra/clickhouse/batcher.ts'
import { type ClickhouseWriter, openWriter } from '#infra/clickhouse/clickhouse.ts'
import { setUpClickhouse, type Table } from '#infra/clickhouse/table.ts'
import { databaseName, readConfig } from '#infra/runtime/config.ts'
import { openCandleFold } from '#streams/candles/fold.ts'
import { openHistoryFold } from '#streams/history/fold.ts'
import { VIEWS } from '#streams/views.ts'
import { dropClickhouse } from '#test/harness/remove-namespace.ts'
import { answerAsBaseline, type Measured, measured } from '../baseline.ts'
import { type ReadChange, readChanges, type SinkName, type SinkQuestion } from './read-changes.ts'

type StoredSink = Exclude<SinkName, 'live-view'>
type Question = SinkQuestion & { sink: StoredSink }

const SINKS = { history: openHistoryFold, candles: openCandleFold }
const ROWS_IN_AN_INSERT = 100_000
/** As many as a fetch brings. */
const CHANGES_IN_A_FLUSH = 8_000

/** Uses a database beside that of the namespace. */
async function withWriter<T>(
  environment: Question['environment'],
  use: (writer: ClickhouseWriter) => Promise<T>,
): Promise<T> {
  const config = readConfig(environment)
  const database = `${databaseName(config.namespace)}_direct`
  const writer = openWriter(config.servers.clickhouse, { database, name: 'baseline' })
  return use(writer).finally(() => writer.close())
}

const write = (question: Question): Promise<Measured> =>
  withWriter(question.environment, async writer => {
    await setUpClickhouse(
      writer,
      VIEWS.flatMap(({ tables }) => tables.map(({ table }) => table)),
    )
    const changes = await readChanges(question)
    const tables = await rowsOf(question.sink, changes)
    return measured(async () => {
      for (const [{ name, columns }, rows] of tables)
        for (let from = 0; from < rows.length; from += ROWS_IN_AN_INSERT)
          await writer.insert({
            table: name,
            columns: Object.keys(columns),
            rows: rows.slice(from, from + ROWS_IN_AN_INSERT),
          })
      return changes.length
    })
  })

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
  remove: (environment: Question['environment']) => withWriter(environment, dropClickhouse),
})
