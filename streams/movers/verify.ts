/**
 * Compares the movers in Redis with what the single changes of the table `changes` come to.
 *
 * The cut is the head's own: best asks and units reflect each partition of market.book-changes up to an offset that it names.
 * Which providers were down then is taken from the head: health of before is not kept.
 */
import { type ClickhouseReader, openReader } from '#infra/clickhouse/clickhouse.ts'
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { type AskPast, readAskPasts, readNewestAsks, readUnchangedItems } from '#streams/history/reader.ts'
import { CAME_MEANWHILE, compare, type Findings, leaveOut, noFindings } from '#streams/runner/verify/findings.ts'
import type { VerifyTask } from '#streams/runner/view.ts'
import { openWholeTables } from '#streams/runner/whole-tables.ts'
import {
  decodeMovers,
  type Mover,
  type MoversHead,
  type MoversWindow,
  moversHeadKey,
  moversRowsKey,
  WINDOW_NAMES,
} from './table.ts'

/** A version stays for a minute after it was replaced, and is read in less than a second. */
const TRIES = 3

/** Compares all windows. */
export const verifyMovers = (task: VerifyTask): Promise<Findings> =>
  withTables(task, async tables => {
    task.report('reading the movers')
    const { head, rows: rowsOf } = await readStored(task)
    task.report('computing them from single changes')
    const newest = await readNewestAsks(tables, ITEM_PARTITIONS)
    const unchanged = await readUnchangedItems(tables)
    const windows = WINDOW_NAMES.map(window => head.windows[window])
    const pasts = await readAskPasts(tables, { next: head.next, without: head.down, windows })
    const pastOf = new Map(pasts.map(past => [past.item_id, past]))
    const findings = noFindings()
    /** Why an item cannot be compared in a window. */
    const excuse = (itemId: number, window: number): string | undefined => {
      const partition = partitionOfItem(itemId)
      const past = pastOf.get(itemId)
      if ((newest[partition] as number) < (head.next[partition] as number) - 1) return 'came to candles before history'
      if (unchanged.has(itemId)) return 'rest on changes that are out of retention'
      if ((past?.later ?? 0) > 0) return CAME_MEANWHILE
      return (past?.windows[window]?.[2] ?? 0) > 0 ? 'changed by a refresh that came late' : undefined
    }
    for (const [i, window] of WINDOW_NAMES.entries()) {
      const rows = rowsOf[window]
      const storedOf = new Map(rows.map(row => [row.itemId, rowText(row)]))
      for (const itemId of new Set([...pastOf.keys(), ...storedOf.keys()])) {
        const reason = excuse(itemId, i)
        if (reason !== undefined) leaveOut(findings, reason)
        else compare(findings, `${window} ${itemId}`, expectedText(pastOf.get(itemId), i), storedOf.get(itemId))
      }
      compare(findings, `${window} order`, 'largest change first, then item id', orderOf(rows))
    }
    return findings
  })

/** A version, all of its windows. */
interface StoredMovers {
  head: MoversHead
  rows: Record<MoversWindow, Mover[]>
}

async function readStored({ config, log }: VerifyTask): Promise<StoredMovers> {
  const prefix = config.namespace
  const redis = await openRedis(config, { name: `${prefix}verify`, log })
  try {
    for (let tries = 0; tries < TRIES; tries++) {
      const text = await redis.get(moversHeadKey(prefix))
      if (text === null) throw new Error('there are no movers: their role writes them, or `marketlog rebuild movers`')
      const head = JSON.parse(text) as MoversHead
      const read = await Promise.all(
        WINDOW_NAMES.map(async window => {
          const bytes = await redis.getBuffer(moversRowsKey(head.version, window, prefix))
          return bytes && [window, decodeMovers(bytes, head.windows[window])]
        }),
      )
      if (!read.includes(null))
        return { head, rows: Object.fromEntries(read as [MoversWindow, Mover[]][]) as StoredMovers['rows'] }
    }
    throw new Error('the rows that the head of the movers names are gone; `marketlog rebuild movers` writes them')
  } finally {
    await closeRedis(redis)
  }
}

const rowText = ({ ask, before, providers, units }: Omit<Mover, 'itemId'>): string =>
  `${before} to ${ask} at ${providers} providers, ${units} units`

/** The row of an item as its changes have it; undefined when its best ask is not known at both ends, or is the same. */
function expectedText(past: AskPast | undefined, window: number): string | undefined {
  const [before, units] = past?.windows[window] ?? [0, 0]
  if (!past || past.lowest === 0 || before === 0 || before === past.lowest) return undefined
  return rowText({ ask: past.lowest, before, providers: past.providers, units })
}

/** Compares each row with the one before by whole numbers: |ask - before| / before. */
function orderOf(rows: readonly Mover[]): string {
  const wrong = rows.findIndex((row, i) => {
    const last = rows[i - 1]
    if (!last) return false
    const size = (of: typeof row, by: typeof row): bigint => BigInt(Math.abs(of.ask - of.before)) * BigInt(by.before)
    const [left, right] = [size(last, row), size(row, last)]
    return left < right || (left === right && last.itemId > row.itemId)
  })
  return wrong < 0 ? 'largest change first, then item id' : `row ${wrong} is not behind the one before it`
}

/** Reads the platform's tables for as long as a comparison works. */
async function withTables<T>({ config }: VerifyTask, work: (tables: ClickhouseReader) => Promise<T>): Promise<T> {
  const database = databaseName(config.namespace)
  const tables = openWholeTables(openReader(config.servers.clickhouseReadOnly, { database, name: 'marketlog-verify' }))
  try {
    return await work(tables)
  } finally {
    await tables.close()
  }
}
