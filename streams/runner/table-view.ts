import type { TopicKey } from '#schemas/topics.ts'
import type { CompareTables, TableView } from './view.ts'

/** What a view in ClickHouse says of itself; the rest follows from its being one. */
type TableViewSpec<Name extends string> = Pick<
  TableView<Name>,
  'name' | 'topics' | 'tables' | 'maxBytesPerPartition' | 'open'
> & { verify: { topics: readonly TopicKey[]; compare: CompareTables } }

/** Defines a view in ClickHouse: the runner keeps, rebuilds and reads its tables. */
export function defineTableView<Name extends string>(spec: TableViewSpec<Name>): TableView<Name> {
  const { topics, compare } = spec.verify
  const view: TableView<Name> = {
    ...spec,
    store: 'clickhouse',
    process: 'history',
    start: async context => (await import('./table-role.ts')).runTableView(context, view),
    rebuild: async task => (await import('./table-rebuild.ts')).rebuildTableView(view, task),
    verify: {
      topics,
      compare: async task => (await import('./verify/compare-tables.ts')).compareTables(task, compare),
    },
  }
  return view
}
