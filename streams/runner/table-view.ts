import type { TableView } from './view.ts'

/** What a view in ClickHouse says of itself; the rest follows from its being one. */
type TableViewSpec<Name extends string> = Pick<
  TableView<Name>,
  'name' | 'topics' | 'tables' | 'maxBytesPerPartition' | 'open' | 'verify'
>

/** Defines a view in ClickHouse: the runner keeps it and rebuilds its tables. */
export function defineTableView<Name extends string>(spec: TableViewSpec<Name>): TableView<Name> {
  const view: TableView<Name> = {
    ...spec,
    store: 'clickhouse',
    process: 'history',
    start: async context => (await import('./table-role.ts')).runTableView(context, view),
    rebuild: async task => (await import('./table-rebuild.ts')).rebuildTableView(view, task),
  }
  return view
}
