/**
 * Gathers rows of all partitions of a sink into few large inserts; each contributor's `add` resolves when its
 * rows are confirmed.
 *
 * Writes the tables of its contributors. An insert is sent when 50,000 rows of a table wait, when at
 * least 10,000 wait and none was added for 50 ms, or one second after the first row; it holds
 * at most 100,000. Inserts run one after the other. Invariant: `add` resolves only after the server
 * confirmed all of its rows, and rejects when a row may be missing. What was cut short is repeated from the log, which the tables are
 * made for; nothing is tried again here, since what a server holds after a failure is not what it held before.
 */
import type { Metrics } from '../runtime/metrics.ts'
import type { ClickhouseWriter } from './clickhouse.ts'
import type { RowBlock, RowBuffer } from './row-buffer.ts'

export interface Batcher {
  /** Takes all rows of the buffers, which are empty afterwards; resolves when they are confirmed. `nameOf`: where a table's rows go. */
  add(buffers: readonly RowBuffer[], nameOf?: (table: string) => string): Promise<void>
  /** Sends what waits; resolves when it is settled. */
  close(): Promise<void>
}

interface BatcherOptions {
  metrics: Metrics
  /** How long the first row waits at most; a second when left out. */
  longestWaitMs?: number
}

interface Contribution {
  /** By the name that they are written to. */
  tables: Map<string, { table: string; columns: readonly string[]; blocks: RowBlock[] }>
  settled: PromiseWithResolvers<void>
}

const FULL_ROWS = 50_000
const WORTHWHILE_ROWS = 10_000
const LARGEST_ROWS = 100_000
/** Contributors wait for their rows, so more than this means that one of them does not. */
const WAITING_ROWS_LIMIT = 2_000_000
const LONGEST_WAIT_MS = 1_000
const LULL_MS = 50

/** Opens a batcher; several partitions of a process share one. */
export function openBatcher(writer: ClickhouseWriter, options: BatcherOptions): Batcher {
  const insert = openInserting(writer, options)
  let waiting: Contribution[] = []
  const rowsOf = new Map<string, number>()
  let isSending = false
  let firstAt: NodeJS.Timeout | undefined
  let lull: NodeJS.Timeout | undefined
  const most = (): number => Math.max(0, ...rowsOf.values())
  const send = async (): Promise<void> => {
    clearTimeout(firstAt)
    clearTimeout(lull)
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
    if (most() >= FULL_ROWS) {
      void send()
      return
    }
    firstAt ??= setTimeout(send, options.longestWaitMs ?? LONGEST_WAIT_MS)
    clearTimeout(lull)
    if (most() >= WORTHWHILE_ROWS) lull = setTimeout(send, LULL_MS)
  }
  return {
    async add(buffers, nameOf = name => name) {
      const tables: Contribution['tables'] = new Map()
      for (const buffer of buffers) {
        const { name, columns } = buffer.table
        if (buffer.rows === 0) continue
        rowsOf.set(name, (rowsOf.get(name) ?? 0) + buffer.rows)
        tables.set(nameOf(name), { table: name, columns: Object.keys(columns), blocks: buffer.take() })
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

/** Inserts contributions table by table, each insert within its limit. */
function openInserting(
  writer: ClickhouseWriter,
  { metrics }: BatcherOptions,
): (contributions: readonly Contribution[]) => Promise<void> {
  const inserted = metrics.counter('marketlog_clickhouse_rows_total', 'Rows confirmed by ClickHouse.', ['table'])
  const seconds = metrics.histogram('marketlog_clickhouse_insert_seconds', 'Time of an insert.', ['table'])
  const send = async (
    { table, columns }: { table: string; columns: readonly string[] },
    name: string,
    blocks: readonly RowBlock[],
  ): Promise<void> => {
    const end = seconds.startTimer({ table })
    await writer.insert({ table: name, columns, chunks: blocks.map(({ bytes }) => bytes) })
    end()
    inserted.inc(
      { table },
      blocks.reduce((sum, { rows }) => sum + rows, 0),
    )
  }
  return async contributions => {
    const names = new Set(contributions.flatMap(({ tables }) => [...tables.keys()]))
    for (const name of names) {
      const parts = contributions.map(({ tables }) => tables.get(name)).filter(part => part !== undefined)
      const [first] = parts
      for (const blocks of cut(parts.flatMap(part => part.blocks))) if (first) await send(first, name, blocks)
    }
  }
}

/** Cuts blocks into runs of at most {@link LARGEST_ROWS} rows. */
function cut(blocks: readonly RowBlock[]): RowBlock[][] {
  const runs: RowBlock[][] = []
  let rows = LARGEST_ROWS
  for (const block of blocks) {
    if (rows + block.rows > LARGEST_ROWS) {
      runs.push([])
      rows = 0
    }
    runs.at(-1)?.push(block)
    rows += block.rows
  }
  return runs
}
