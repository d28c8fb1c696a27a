/**
 * Every ClickHouse table of the platform, and the statements that create them.
 *
 * The set-up step (infra/clickhouse/set-up.ts) runs the statements; each may be run again.
 */
import { candleParts } from './candle-parts.ts'
import { candleStanding } from './candle-standing.ts'
import { changes } from './changes.ts'
import { fxDays } from './fx-days.ts'
import { providerDays } from './provider-days.ts'
import { sales, salesByTime } from './sales.ts'
import { createTable, type Table } from './table.ts'
import { viewSwitches } from './view-switches.ts'

/** Every table, writers in alphabetical order. */
export const tables: readonly Table[] = [
  candleParts,
  candleStanding,
  fxDays,
  changes,
  providerDays,
  sales,
  salesByTime,
  viewSwitches,
]

/** The statements that create all tables in a database that exists. */
export const allTables = (database: string): string[] => tables.map(table => createTable(database, table))
