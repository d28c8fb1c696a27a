import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Versions } from './build.ts'
import type { ComputedView, RedisFold, RedisView, TableView, View } from './view.ts'

export function defineTableView<Name extends string>(
  spec: Pick<TableView<Name>, 'name' | 'topics' | 'tables' | 'maxBytesPerPartition' | 'open'> &
    Partial<Pick<TableView<Name>, 'process'>>,
): TableView<Name> {
  const view: TableView<Name> = {
    process: 'analytics',
    ...spec,
    store: 'clickhouse',
    start: async context => (await import('./table-role.ts')).runTableView(context, view),
    ...builtBy(async config => (await import('./table-store.ts')).tableVersions(view, config)),
  }
  return view
}

export function defineRedisView<Name extends string, Fold extends RedisFold>(
  spec: Omit<RedisView<Name, Fold>, 'store' | 'process' | 'tables' | 'start' | 'rebuild' | 'verify'>,
): RedisView<Name, Fold> {
  const view: RedisView<Name, Fold> = {
    ...spec,
    store: 'redis',
    process: 'path',
    tables: [],
    start: async context => (await import('./redis-role.ts')).runRedisView(context, view),
    ...builtBy(async config => (await import('./redis-store.ts')).redisVersions(view, config)),
  }
  return view
}

const builtBy = (
  versions: (config: PlatformConfig) => Promise<Versions>,
): Required<Pick<View, 'rebuild' | 'verify'>> => ({
  rebuild: async task => (await import('./build.ts')).build(await versions(task.config), task),
  verify: {
    topics: [],
    compare: async task => (await import('./verify.ts')).verify(await versions(task.config), task),
  },
})

/** Defines a view that is computed of other views: the runner computes it when it is due, writes its versions and names the newest. */
export function defineComputedView<Name extends string>(
  spec: Pick<ComputedView<Name>, 'name' | 'computedOf' | 'open'>,
): ComputedView<Name> {
  const view: ComputedView<Name> = {
    ...spec,
    topics: [],
    store: 'redis',
    process: 'analytics',
    tables: [],
    start: async context => (await import('./computed-role.ts')).runComputedView(context, view),
  }
  return view
}
