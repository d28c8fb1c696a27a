/**
 * The limit of the ClickHouse sinks: inserts of the same rows, already encoded, by the same client.
 *
 * The sinks' own code makes the rows, before the clock starts; they go into tables of the same definition in a database
 * of their own, 100,000 rows an insert, one insert after the other. What is left out is the log, the folding
 * and the encoding.
 */
import type { Batcher } from '#infra/clickhouse/batcher.ts'
import { type ClickhouseWriter, openWriter } from '#infra/clickhouse/clickhouse.ts'
import type { RowBlock } from '#infra/clickhouse/row-buffer.ts'
import { setUpClickhouse } from '#infra/clickhouse/set-up-tables.ts'
import { databaseName, readConfig } from '#infra/runtime/config.ts'
import { openCandleSink } from '#streams/candles/sink.ts'
import { openHistorySink } from '#streams/history/sink.ts'
import { TABLES } from '#streams/views.ts'
import { dropClickhouse } from '#test/harness/remove-namespace.ts'
import { answerAsBaseline, type Measured, measured } from '../baseline.ts'
import type { SinkRound } from '../sink-turns.ts'
import { type StoredSink, storedRows } from '../stored-rows.ts'
import { type ReadChange, readChanges, type WriteRequest } from './read-changes.ts'

const SINKS = { history: openHistorySink, candles: openCandleSink }
const ROWS_IN_AN_INSERT = 100_000
/** As many as a fetch brings. */
const CHANGES_IN_A_FLUSH = 8_000

/** What to write, and which sink's rows. */
export interface InsertRequest extends WriteRequest, SinkRound {
  sink: StoredSink
}

interface TableRows {
  columns: readonly string[]
  blocks: RowBlock[]
}

async function write(request: InsertRequest): Promise<Measured> {
  const { sink } = request
  const config = readConfig(request.environment)
  const database = `${databaseName(config.namespace)}_direct`
  const writer = openWriter(config.servers.clickhouse, { database, name: 'baseline' })
  try {
    await setUpClickhouse(writer, TABLES)
    const tables = await rowsOf(sink, await readChanges(request))
    const inserted = await measured(async () => {
      for (const [table, { columns, blocks }] of tables) await insert(writer, table, columns, blocks)
      return 0
    })
    return { ...inserted, count: await storedRows(config.servers.clickhouse, database, sink, request) }
  } finally {
    await writer.close()
  }
}

async function insert(
  writer: ClickhouseWriter,
  table: string,
  columns: readonly string[],
  blocks: readonly RowBlock[],
): Promise<void> {
  let chunks: Buffer[] = []
  let waiting = 0
  for (const [at, block] of blocks.entries()) {
    chunks.push(block.bytes)
    waiting += block.rows
    const following = blocks[at + 1]
    if (following !== undefined && waiting + following.rows <= ROWS_IN_AN_INSERT) continue
    await writer.insert({ table, columns, chunks })
    chunks = []
    waiting = 0
  }
}

/** The rows that a sink makes of changes, by table. */
async function rowsOf(sink: StoredSink, changes: readonly ReadChange[]): Promise<Map<string, TableRows>> {
  const tables = new Map<string, TableRows>()
  const keep: Batcher = {
    async add(buffers) {
      for (const buffer of buffers) {
        const { name, columns } = buffer.table
        const rows = tables.get(name) ?? { columns: Object.keys(columns), blocks: [] }
        rows.blocks.push(...buffer.take())
        tables.set(name, rows)
      }
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

async function remove(environment: WriteRequest['environment']): Promise<void> {
  const config = readConfig(environment)
  const database = `${databaseName(config.namespace)}_direct`
  const writer = openWriter(config.servers.clickhouse, { database, name: 'baseline' })
  await dropClickhouse(writer).finally(() => writer.close())
}

answerAsBaseline({ write, remove })
