/** The pages by their addresses. Each state of a page is in its address, so that a link shows what its sender saw. */
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  retainSearchParams,
  stringifySearchWith,
} from '@tanstack/react-router'
import { readAnalyticsSearch } from './analytics/analytics-search.ts'
import { Board } from './board/board.tsx'
import { readBoardSearch } from './board/board-search.ts'
import { Empty, Problem } from './design/states.tsx'
import { Frame } from './frame/frame.tsx'
import { readItemSearch } from './item/item-search.ts'

/** As they are in an address: text. */
type Search = Record<string, unknown>

const root = createRootRoute({
  component: Frame,
  notFoundComponent: () => (
    <Empty>
      <h1>There is no such page</h1>
      <p>The navigation above leads on.</p>
    </Empty>
  ),
  validateSearch: ({ currency }: Search): { currency?: string | undefined } => ({
    currency: /^[A-Z]{3}$/.test(String(currency)) ? String(currency) : undefined,
  }),
  search: { middlewares: [retainSearchParams(['currency'])] },
})

const board = createRoute({ getParentRoute: () => root, path: '/', validateSearch: readBoardSearch, component: Board })

const item = createRoute({
  getParentRoute: () => root,
  path: '/item/$itemId',
  validateSearch: readItemSearch,
  component: lazyRouteComponent(() => import('./item/item.tsx'), 'Item'),
})

const movers = createRoute({
  getParentRoute: () => root,
  path: '/movers',
  validateSearch: readAnalyticsSearch,
  component: lazyRouteComponent(() => import('./analytics/movers.tsx'), 'Movers'),
})

const indexes = createRoute({
  getParentRoute: () => root,
  path: '/indexes',
  validateSearch: readAnalyticsSearch,
  component: lazyRouteComponent(() => import('./analytics/indexes.tsx'), 'Indexes'),
})

const arbitrage = createRoute({
  getParentRoute: () => root,
  path: '/arbitrage',
  validateSearch: readAnalyticsSearch,
  component: lazyRouteComponent(() => import('./analytics/arbitrage.tsx'), 'Arbitrage'),
})

const providers = createRoute({
  getParentRoute: () => root,
  path: '/providers',
  component: lazyRouteComponent(() => import('./providers/providers.tsx'), 'Providers'),
})

const routeTree = root.addChildren([board, item, movers, indexes, arbitrage, providers])

export const openRouter = (basepath: string) =>
  createRouter({
    routeTree,
    basepath,
    defaultErrorComponent: ({ error, reset }) => <Problem error={error} retry={reset} />,
    trailingSlash: 'preserve',
    // Values are text, not JSON: a search for 42 is not one for a number.
    parseSearch: text => Object.fromEntries(new URLSearchParams(text)),
    stringifySearch: stringifySearchWith(String),
  })

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof openRouter>
  }
}
