/**
 * Gathers rows of all partitions of a sink into few large inserts; each contributor's `add` resolves when its
 * rows are confirmed.
 *
 * Writes the tables of its contributors. An insert is sent when 10,000 rows of a table wait, or one
 * second after the first row; it holds at most 100,000. Inserts run one after the other, so what comes during one
 * goes with the next. Invariant: `add` resolves only after the server
 * confirmed all of its rows, and rejects when a row may be missing. What was cut short is repeated from the log, which the tables are
 * made for; nothing is tried again here, since what a server holds after a failure is not what it held before.
 */
import { DAY_MS, formatDay } from '#schemas/values/instant.ts'
import type { Metrics } from '../runtime/metrics.ts'
import type { ClickhouseWriter } from './clickhouse.ts'
import type { Table } from './table.ts'

/** Rows of one table as texts, which take less memory than the objects. */
export class RowBuffer {
  readonly table: Table
  readonly #columns: readonly (readonly [name: string, type: string])[]
  #rows: string[] = []

  constructor(table: Table) {
    this.table = table
    this.#columns = Object.entries(table.columns)
  }

  get rows(): number {
    return this.#rows.length
  }

  /**
   * Appends a row by the names of its columns; members of other names are left out. A Date is days, a DateTime seconds, a DateTime64
   * milliseconds since 1970, a Tuple an object and a Map a Map; integers are exact up to 2^53.
   */
  add(row: object): void {
    const values = this.#columns.map(([name, type]) => {
      const value = (row as Record<string, unknown>)[name]
      if (value === undefined) throw new Error(`a row of ${this.table.name} lacks ${name}`)
      if (type === 'Date') return formatDay((value as number) * DAY_MS)
      return value instanceof Map ? Object.fromEntries(value) : value
    })
    this.#rows.push(JSON.stringify(values))
  }

  drain(): string[] {
    const rows = this.#rows
    this.#rows = []
    return rows
  }
}

export interface Batcher {
  /** Takes all rows of the buffers, which are empty afterwards; resolves when they are confirmed. `nameOf`: where a table's rows go. */
  add(buffers: readonly RowBuffer[], nameOf?: (table: string) => string): Promise<void>
  /** Sends what waits; resolves when it is settled. */
  close(): Promise<void>
}

interface Contribution {
  /** By the name that they are written to. */
  tables: Map<string, { table: Table; rows: string[] }>
  settled: PromiseWithResolvers<void>
}

const WORTHWHILE_ROWS = 10_000
const LARGEST_ROWS = 100_000
/** Contributors wait for their rows, so more than this means that one of them does not. */
const WAITING_ROWS_LIMIT = 2_000_000
const LONGEST_WAIT_MS = 1_000

export function openBatcher(
  writer: ClickhouseWriter,
  { metrics, longestWaitMs = LONGEST_WAIT_MS }: { metrics: Metrics; longestWaitMs?: number },
): Batcher {
  const inserted = metrics.counter('marketlog_clickhouse_rows_total', 'Rows confirmed by ClickHouse.', ['table'])
  const seconds = metrics.histogram('marketlog_clickhouse_insert_seconds', 'Time of an insert.', ['table'])
  const insert = async (contributions: readonly Contribution[]): Promise<void> => {
    for (const name of new Set(contributions.flatMap(({ tables }) => [...tables.keys()]))) {
      const parts = contributions.flatMap(({ tables }) => tables.get(name) ?? [])
      const { name: table = name, columns = {} } = parts[0]?.table ?? {}
      const all = parts.flatMap(({ rows }) => rows)
      for (let from = 0; from < all.length; from += LARGEST_ROWS) {
        const rows = all.slice(from, from + LARGEST_ROWS)
        const end = seconds.startTimer({ table })
        await writer.insert({ table: name, columns: Object.keys(columns), rows })
        end()
        inserted.inc({ table }, rows.length)
      }
    }
  }
  let waiting: Contribution[] = []
  const rowsOf = new Map<string, number>()
  let isSending = false
  let firstAt: NodeJS.Timeout | undefined
  const most = (): number => Math.max(0, ...rowsOf.values())
  const send = async (): Promise<void> => {
    clearTimeout(firstAt)
    firstAt = undefined
    if (isSending || waiting.length === 0) return
    const contributions = waiting
    waiting = []
    rowsOf.clear()
    isSending = true
    try {
      await insert(contributions)
      for (const { settled } of contributions) settled.resolve()
    } catch (error) {
      for (const { settled } of contributions) settled.reject(error)
    }
    isSending = false
    schedule()
  }
  const schedule = (): void => {
    if (isSending || waiting.length === 0) return
    if (most() >= WORTHWHILE_ROWS) void send()
    else firstAt ??= setTimeout(send, longestWaitMs)
  }
  return {
    async add(buffers, nameOf = name => name) {
      const tables: Contribution['tables'] = new Map()
      for (const buffer of buffers) {
        const { table, rows } = buffer
        if (rows === 0) continue
        rowsOf.set(table.name, (rowsOf.get(table.name) ?? 0) + rows)
        tables.set(nameOf(table.name), { table, rows: buffer.drain() })
      }
      if (tables.size === 0) return
      if (most() > WAITING_ROWS_LIMIT)
        throw new Error(`${most()} rows wait for ClickHouse: a sink does not await its own`)
      const settled = Promise.withResolvers<void>()
      waiting.push({ tables, settled })
      schedule()
      await settled.promise
    },
    async close() {
      const unsettled = waiting.map(({ settled }) => settled.promise.catch(() => undefined))
      await send()
      await Promise.all(unsettled)
    },
  }
}
