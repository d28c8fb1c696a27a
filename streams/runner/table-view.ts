import type { TableView } from './view.ts'

/** Defines a view in ClickHouse: the runner keeps it and builds its versions. */
export function defineTableView<Name extends string>(
  spec: Pick<TableView<Name>, 'name' | 'topics' | 'tables' | 'maxBytesPerPartition' | 'open'> &
    Partial<Pick<TableView<Name>, 'process'>>,
): TableView<Name> {
  const view: TableView<Name> = {
    process: 'history',
    ...spec,
    store: 'clickhouse',
    start: async context => (await import('./table-role.ts')).runTableView(context, view),
    rebuild: async task => (await import('./build.ts')).buildTables(view, task),
    verify: { topics: [], compare: async task => (await import('./verify-tables.ts')).verifyTables(view, task) },
  }
  return view
}
