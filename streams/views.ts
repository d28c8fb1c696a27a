/**
 * The list of all views: roles, `rebuild`, `verify`, lag and rights derive from it.
 *
 * A definition loads no code of its role (streams/runner/view.ts), so every process may read this list.
 */
import type { View } from './runner/view.ts'

const defined = await Promise.all([
  import('./fx/view.ts'),
  import('./provider-health/view.ts'),
  import('./market-summary/view.ts'),
  import('./movers/view.ts'),
  import('./live-view/view.ts'),
  import('./candles/view.ts'),
  import('./history/view.ts'),
  import('./sales/view.ts'),
  import('./alert-triggers/view.ts'),
])

/** Role, consumer group and name of a view. */
export type ViewName = (typeof defined)[number]['view']['name']

export const VIEWS: readonly View<ViewName>[] = defined.map(({ view }) => view)
