/**
 * view_switches: the position of a rebuilt view when its tables replaced the old ones. Writer: streams/runner.
 *
 * Invariant: a row with `is_done` 0 whose tables are in place says that changes from `reached` on may be missing, and
 * the role or the next rebuild reads them again. One row counts for each view: the newest.
 */
import type { Table } from '#infra/clickhouse/table.ts'

/** The table's definition. */
export const viewSwitches: Table = {
  name: 'view_switches',
  writer: 'runner',
  columns: {
    view: 'String',
    reached: 'String',
    tables: 'Array(String)',
    is_done: 'Bool',
    version: 'UInt64',
  },
  engine: 'ReplacingMergeTree(version)',
  orderBy: 'view',
  partitionBy: 'tuple()',
}

/** A row as JSONEachRow shows it. */
export interface ViewSwitchRow {
  /** JSON: topic → next offset of each partition that the new tables lacked. */
  reached: string
  /** UUIDs of the new tables. */
  tables: string[]
  is_done: boolean
  version: number
}

/** Reads the newest switch of a view (parameter `view`). */
export const selectViewSwitch = (database: string): string =>
  `SELECT reached, tables, is_done, version FROM ${database}.view_switches WHERE view = {view:String} ORDER BY version DESC LIMIT 1`
