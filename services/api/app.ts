/** All that the API serves: its routes, the most frequent first, and its pages. */
import type { Endpoint, Route } from '#infra/http/define-route.ts'
import { feedOperations } from '#schemas/api/feed-operations.ts'
import type { Operation } from '#schemas/api/operation.ts'
import type { ApiContext } from './context.ts'
import { accountRoutes, unsubscribePages } from './routes/account.ts'
import { accountDataRoutes } from './routes/account-data.ts'
import { accountKeyRoutes } from './routes/account-keys.ts'
import { alertRoutes } from './routes/alerts.ts'
import { batchRoutes } from './routes/batches.ts'
import { listCandles } from './routes/candles.ts'
import { catalogRoutes } from './routes/catalog.ts'
import { consolePages, documentPages, landingPage } from './routes/documents.ts'
import { guidePages, readGuides } from './routes/guides.ts'
import { listHistory } from './routes/history.ts'
import { inventoryRoutes } from './routes/inventory.ts'
import { listingRoutes, openListing } from './routes/listings.ts'
import { marketRoutes } from './routes/market.ts'
import { marketHistoryRoutes } from './routes/market-history.ts'
import { listMovers } from './routes/movers.ts'
import { listPortfolioDays } from './routes/portfolio-days.ts'
import { portfolioFileRoutes } from './routes/portfolio-files.ts'
import { readPortfolioPerformance } from './routes/portfolio-performance.ts'
import { portfolioValueRoutes } from './routes/portfolio-values.ts'
import { portfolioRoutes } from './routes/portfolios.ts'
import { providerRoutes } from './routes/providers.ts'
import { listSales } from './routes/sales.ts'
import { signInRoutes } from './routes/sign-in.ts'
import { snapshotRoutes } from './routes/snapshots.ts'
import { webhookRoutes } from './routes/webhooks.ts'
import { openSite } from './site.ts'

export const apiRoutes = (api: ApiContext): Route[] => [
  ...listingRoutes(api),
  ...batchRoutes(api),
  ...snapshotRoutes(api),
  listCandles(api),
  listHistory(api),
  listSales(api),
  ...catalogRoutes(api),
  ...providerRoutes(api),
  ...marketRoutes(api),
  ...marketHistoryRoutes(api),
  listMovers(api),
  ...accountKeyRoutes(api),
  ...webhookRoutes(api),
  ...alertRoutes(api),
  ...portfolioValueRoutes(api),
  ...portfolioRoutes(api),
  listPortfolioDays(api),
  readPortfolioPerformance(api),
  ...portfolioFileRoutes(api),
  ...inventoryRoutes(api),
  ...signInRoutes(api),
  ...accountRoutes(api),
  ...accountDataRoutes(api),
  openListing(api),
]

/** All that is described: the routes, and those of the feeds, which the role `feed` serves. */
export const describedOperations = (
  routes: readonly Route[],
  { registry }: Pick<ApiContext, 'registry'>,
): Operation[] => [...routes, ...Object.values(feedOperations(registry.askKeys))]

/** All that is served: the routes, their documents, the guides, the landing page, the console, and the link of alert mails. */
export function apiEndpoints(api: ApiContext): Endpoint[] {
  const routes = apiRoutes(api)
  const site = openSite()
  const operations = describedOperations(routes, api)
  const pages = readGuides(operations, api)
  return [
    ...routes,
    ...documentPages({ operations, guides: pages.guides }, api, site),
    ...guidePages(pages, site),
    landingPage(api, site),
    ...consolePages(),
    site.files,
    ...unsubscribePages(api),
  ]
}
