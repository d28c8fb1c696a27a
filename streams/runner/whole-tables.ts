/**
 * Reads tables in ClickHouse in the version of their view that is read, and only while that is whole.
 *
 * A query names its tables after the database, so none can be left out; they are renamed to those of the version. What is stored of the
 * views is read at most once a second, and again after any query that failed, since a server that comes back with other data has failed
 * one before. Invariant: a view is refused while a partition of it has no position, has stopped, waits for what it once reflected, or is
 * behind what this process has seen of the version.
 */
import { type ClickhouseReader, isMissingTable } from '#infra/clickhouse/clickhouse.ts'
import { cached, coalesceAlike } from '#infra/runtime/async/coalesce.ts'
import { openReadJudge } from './positions.ts'
import { readStoredViews, type StoredView, tableOf, type Version, viewPositions } from './table-versions.ts'

export class ViewIncomplete extends Error {}

/** How old what a reader goes by may be, in milliseconds. */
const STORED_AGE_MS = 1_000

/** Name → the version that it is read in, or why it may not be read. */
type Tables = ReadonlyMap<string, Version | string>

/** The same reader, which rejects where a query names a table of a view that is not whole. */
export function openWholeTables(reader: ClickhouseReader): ClickhouseReader {
  const judges: Judges = new Map()
  const names = new RegExp(`\\b${reader.database}\\.(\\w+)`, 'g')
  const stored = cached(async () => {
    const { names: views, of } = await readStoredViews(reader)
    return tablesOf(
      views.map(view => [view, of(view)] as const),
      judges,
    )
  }, STORED_AGE_MS)
  /** A view that has become whole is read at once. */
  const readAgain = coalesceAlike(() => {
    stored.forget()
    return stored.get()
  })
  /** A version that was replaced is gone a few seconds later: its successor is asked. */
  async function whole<T>(query: string, ask: (query: string) => Promise<T>, isAgain = false): Promise<T> {
    const named = [...query.matchAll(names)].map(([, table = '']) => table)
    const newest = await stored.get()
    const isWhole = named.every(table => typeof newest.get(table) === 'object')
    const tables = isWhole ? newest : await readAgain()
    try {
      return await ask(query.replaceAll(names, (_, table: string) => `${reader.database}.${nameIn(tables, table)}`))
    } catch (error) {
      stored.forget()
      if (isAgain || !isMissingTable(error)) throw error
      return whole(query, ask, true)
    }
  }
  return {
    ...reader,
    rows: (query, params, signal) => whole(query, renamed => reader.rows(renamed, params, signal)),
    columns: (selection, params) => whole(selection.from, from => reader.columns({ ...selection, from }, params)),
  }
}

function nameIn(tables: Tables, table: string): string {
  if (table === viewPositions.name) return table
  const version = tables.get(table) ?? 'no view has a version of it'
  if (typeof version === 'string') throw new ViewIncomplete(`${table} may not be read: ${version}`)
  return tableOf(table, version)
}

/** Of each partition of each version. */
type Judges = Map<string, ReturnType<typeof openReadJudge>>

/** Judges all tables, and remembers how far each partition was seen. */
function tablesOf(views: readonly (readonly [view: string, StoredView])[], judges: Judges): Tables {
  const tables = new Map<string, Version | string>()
  for (const [view, stored] of views) {
    const state = faultOf(view, stored, judges) ?? stored.current ?? 'a table of it was lost'
    for (const table of Object.keys(stored.named?.tables ?? {})) tables.set(table, state)
  }
  return tables
}

function faultOf(view: string, { named, positions }: StoredView, judges: Judges): string | undefined {
  for (const { topic, partition, position } of positions) {
    const key = `${view} ${named?.id} ${topic} ${partition}`
    const judge = judges.get(key) ?? openReadJudge()
    judges.set(key, judge)
    const lack = judge(position)
    if (lack !== undefined) return `${topic}-${partition}: ${lack}`
  }
  return undefined
}
