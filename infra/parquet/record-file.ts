/**
 * Writes rows into a Parquet file, row group by row group.
 *
 * Memory holds one row group, whatever the file's size, besides the footer's few hundred bytes for each group. The file is
 * written under a name of its own and takes the wanted one when it is whole. Invariant: a command that is killed leaves
 * no half file under the wanted name.
 */
import { renameSync, rmSync } from 'node:fs'
import { type ColumnSource, fileWriter, ParquetWriter, schemaFromColumnData } from 'hyparquet-writer'

export type ColumnType = 'STRING' | 'INT32' | 'INT64' | 'DOUBLE' | 'BOOLEAN' | 'BYTE_ARRAY' | 'TIMESTAMP'

/** A column; every one may hold nulls. */
export interface RecordColumn {
  name: string
  type: ColumnType
}

const ROWS_PER_GROUP = 20_000

export function openRecordFile(path: string, columns: readonly RecordColumn[], rowsPerGroup = ROWS_PER_GROUP) {
  const unfinished = `${path}.part`
  const empty = (): ColumnSource[] => columns.map(({ name, type }) => ({ name, type, data: [], nullable: true }))
  const out = new ParquetWriter({
    writer: fileWriter(unfinished),
    schema: schemaFromColumnData({ columnData: empty() }),
    createdBy: 'marketlog',
  })
  let rows: unknown[][] = columns.map(() => [])
  let count = 0
  const writeGroup = async (): Promise<void> => {
    if (count === 0) return
    const columnData = empty().map((column, at) => ({ ...column, data: rows[at] ?? [] }))
    rows = columns.map(() => [])
    count = 0
    await out.write({ columnData, rowGroupSize: rowsPerGroup })
  }
  return {
    /** Adds a row in the order of the columns; long integers as bigint, times as Date, bytes as Uint8Array. */
    async append(row: readonly unknown[]): Promise<void> {
      for (const [at, column] of rows.entries()) column.push(row[at] ?? null)
      count += 1
      if (count >= rowsPerGroup) await writeGroup()
    },
    /** Completes the file; it has its name from then on. */
    async finish(): Promise<void> {
      await writeGroup()
      await out.finish()
      renameSync(unfinished, path)
    },
    /** Removes what was written, when it is not complete. */
    abandon: (): void => rmSync(unfinished, { force: true }),
  }
}
