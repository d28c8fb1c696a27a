import type { ComputedView } from './view.ts'

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
