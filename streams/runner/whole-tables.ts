/**
 * Reads tables in ClickHouse only while the views that they belong to are whole.
 *
 * A query names its tables after the database, so none can be left out. Positions are read at most once a second, and again after any
 * query that failed, since a server that comes back with other data has failed one before. Invariant: a view is refused while a
 * partition of it has no position, has stopped, waits for what it once reflected, or is behind what this process has seen of it.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { openSharedAnswer } from '#infra/runtime/shared-answer.ts'
import { openReadJudge } from './positions.ts'
import { readViewPositions, type StoredPosition, type StoredPositions, tableText } from './view-positions.ts'

/** A view may not be read now. */
class ViewIncomplete extends Error {}

/** How old the positions that a reader goes by may be, in milliseconds. */
export const POSITIONS_AGE_MS = 1_000

/** The same reader, which rejects where a query names a table of a view that is not whole. */
export function openWholeTables(reader: ClickhouseReader): ClickhouseReader {
  const judges: Judges = new Map()
  const named = new RegExp(`\\b${reader.database}\\.(\\w+)`, 'g')
  const faults = openSharedAnswer(async () => faultsOf(await readViewPositions(reader), judges), POSITIONS_AGE_MS)
  /** A view that has become whole is read at once. */
  const again = openSharedAnswer(() => {
    faults.forget()
    return faults.get()
  })
  async function whole<T>(query: string, ask: () => Promise<T>): Promise<T> {
    const tables = [...query.matchAll(named)].map(([, table = '']) => table)
    const fault = refusalOf(tables, await faults.get()) && refusalOf(tables, await again.get())
    if (fault !== undefined) throw new ViewIncomplete(fault)
    try {
      return await ask()
    } catch (error) {
      faults.forget()
      throw error
    }
  }
  return {
    ...reader,
    rows: (query, params, signal) => whole(query, () => reader.rows(query, params, signal)),
    columns: (query, shape, params) => whole(query, () => reader.columns(query, shape, params)),
  }
}

/** Table → why it may not be read; undefined: it may. */
type Faults = ReadonlyMap<string, string | undefined>

/** Why a query that names some tables is refused. */
function refusalOf(tables: readonly string[], faults: Faults): string | undefined {
  for (const table of tables) {
    const fault = faults.has(table) ? faults.get(table) : 'no view has a position in it'
    if (fault !== undefined) return `${table} may not be read: ${fault}`
  }
  return undefined
}

/** Of each partition of each view. */
type Judges = Map<string, ReturnType<typeof openReadJudge>>

/** Judges all tables, and remembers how far each partition was seen. */
function faultsOf(stored: StoredPositions, judges: Judges): Faults {
  const faults = new Map<string, string | undefined>()
  for (const rows of Map.groupBy(stored.rows, ({ view }) => view).values()) {
    const found = rows.map(row => faultOf(row, stored, judges))
    const lacking = rows.length < (rows[0]?.partitions ?? 0) ? 'nothing of a partition is in it' : undefined
    const fault = found.find(each => each !== undefined) ?? lacking
    for (const text of rows.flatMap(({ tables }) => tables)) faults.set(text.split(' ')[0] ?? '', fault)
  }
  return faults
}

function faultOf(row: StoredPosition, stored: StoredPositions, judges: Judges): string | undefined {
  const { view, topic, partition, position, tables } = row
  const names = new Set(tables.map(text => text.split(' ')[0] ?? ''))
  for (const name of names) {
    if (!tables.includes(tableText(name, stored.idOf(name)))) return 'it is not the table that its position is of'
  }
  const key = `${view} ${topic} ${partition}`
  const judge = judges.get(key) ?? openReadJudge()
  judges.set(key, judge)
  const lack = judge(position)
  return lack === undefined ? undefined : `${topic}-${partition}: ${lack}`
}
