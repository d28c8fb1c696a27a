/** A table that sorts all of its rows by a column's header, and shows the first of them: each row that it makes costs the page time. */
import {
  type ColumnDef,
  createSortedRowModel,
  metaHelper,
  rowSortingFeature,
  sortFn_text,
  tableFeatures,
  useTable,
} from '@tanstack/react-table'
import { useDeferredValue } from 'react'

const features = tableFeatures({
  rowSortingFeature,
  sortedRowModel: createSortedRowModel(),
  sortFns: { text: sortFn_text },
  columnMeta: metaHelper<{ className: string }>(),
})

export type Columns<Row extends object> = readonly ColumnDef<typeof features, Row>[]

/** Of a column with numbers, which are set right. */
export const NUMBER = { className: 'number' }

interface DataTableProps<Row extends object> {
  /** For screen readers. */
  label: string
  columns: Columns<Row>
  rows: readonly Row[]
}

const SHOWN_MAX = 100

export function DataTable<Row extends object>({ label, columns, rows }: DataTableProps<Row>) {
  // Rendered in slices, between which the page answers.
  const data = useDeferredValue(rows, NO_ROWS)
  const table = useTable({ features, columns, data })
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keys
    <section className="sheet" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          {table.getHeaderGroups().map(({ id, headers }) => (
            <tr key={id}>
              {headers.map(header => (
                <th
                  key={header.id}
                  scope="col"
                  className={header.column.columnDef.meta?.className}
                  aria-sort={SORTS[String(header.column.getIsSorted())]}
                >
                  <button type="button" className="plain" onClick={header.column.getToggleSortingHandler()}>
                    <table.FlexRender header={header} />
                    <span aria-hidden="true">{ARROWS[String(header.column.getIsSorted())]}</span>
                  </button>
                </th>
              ))}
            </tr>
          ))}
        </thead>
        <tbody>
          {table
            .getRowModel()
            .rows.slice(0, SHOWN_MAX)
            .map(row => (
              <tr key={row.id}>
                {row.getAllCells().map(cell => (
                  <td key={cell.id} className={cell.column.columnDef.meta?.className}>
                    <table.FlexRender cell={cell} />
                  </td>
                ))}
              </tr>
            ))}
        </tbody>
      </table>
      {rows.length > SHOWN_MAX && (
        <p className="more quiet">
          {SHOWN_MAX} of {rows.length} in this order.
        </p>
      )}
    </section>
  )
}

const NO_ROWS: readonly never[] = []

const SORTS: Record<string, 'ascending' | 'descending'> = { asc: 'ascending', desc: 'descending' }
const ARROWS: Record<string, string> = { asc: ' ↑', desc: ' ↓' }
