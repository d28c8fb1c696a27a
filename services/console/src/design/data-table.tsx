/** A table of some hundred rows at most, which sorts by a column's header. */
import {
  type ColumnDef,
  createSortedRowModel,
  metaHelper,
  rowSortingFeature,
  type SortingState,
  sortFn_text,
  tableFeatures,
  useTable,
} from '@tanstack/react-table'

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
  sorting?: SortingState
}

export function DataTable<Row extends object>({ label, columns, rows, sorting = [] }: DataTableProps<Row>) {
  const table = useTable({ features, columns, data: rows, initialState: { sorting } })
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
          {table.getRowModel().rows.map(row => (
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
    </section>
  )
}

const SORTS: Record<string, 'ascending' | 'descending'> = { asc: 'ascending', desc: 'descending' }
const ARROWS: Record<string, string> = { asc: ' ↑', desc: ' ↓' }
