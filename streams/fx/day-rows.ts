/** The rows of fx_days as commands compare and mend them; the API reads by reader.ts. */
import type { ClickhouseReader, ClickhouseWriter } from '#infra/clickhouse/clickhouse.ts'
import { fxDays } from './table.ts'

/** The rate of a currency on a day. */
export interface DayRow {
  /** Since 1970-01-01. */
  day: number
  currency: string
  rate: string
  as_of: number
}

const DAY_MS = 86_400_000
const ROWS_PER_STATEMENT = 500

/** The day of an instant. */
export const dayOf = (at: number): number => Math.floor(at / DAY_MS)

/** All rows, of each currency and day the one that counts. */
export const readDayRows = (tables: ClickhouseReader): Promise<DayRow[]> =>
  tables.rows<DayRow>(
    `SELECT toUInt32(fx.day) AS day, currency, rate, toUnixTimestamp64Milli(fx.as_of) AS as_of
    FROM ${tables.database}.${fxDays.name} AS fx FINAL ORDER BY fx.day, currency`,
  )

/** Removes rows that are exactly these; resolves when no reader sees them any more. */
export async function deleteDayRows(writer: ClickhouseWriter, rows: readonly DayRow[]): Promise<void> {
  for (let from = 0; from < rows.length; from += ROWS_PER_STATEMENT) {
    const some = rows.slice(from, from + ROWS_PER_STATEMENT)
    const tuples = some.map(
      ({ day, currency, rate, as_of }) => `(${day}, ${quoted(currency)}, ${quoted(rate)}, ${as_of})`,
    )
    await writer.command(
      `ALTER TABLE ${writer.database}.${fxDays.name} DELETE WHERE
        (toUInt32(day), toString(currency), rate, toUnixTimestamp64Milli(as_of)) IN (${tuples.join(', ')})
      SETTINGS mutations_sync = 2`,
    )
  }
}

const quoted = (text: string): string => `'${text.replace(/[\\']/g, '\\$&')}'`
