/**
 * All that the API serves: its routes, the most frequent first, and its pages.
 */
import type { Endpoint, Route } from '#infra/http/define-route.ts'
import type { ViewStore } from '#infra/redis/redis.ts'
import { feedOperations } from '#schemas/api/feed-operations.ts'
import type { Operation } from '#schemas/api/operation.ts'
import { type AccountNeeds, accountRoutes } from './routes/account.ts'
import { type AccountDataNeeds, accountDataRoutes } from './routes/account-data.ts'
import { type AccountKeyNeeds, accountKeyRoutes } from './routes/account-keys.ts'
import { type AlertNeeds, alertRoutes } from './routes/alerts.ts'
import { type BatchNeeds, batchRoutes } from './routes/batches.ts'
import { type CandleNeeds, listCandles } from './routes/candles.ts'
import { type CatalogNeeds, catalogRoutes } from './routes/catalog.ts'
import { consolePages } from './routes/console.ts'
import { documentPages } from './routes/documents.ts'
import { guidePages, readGuides } from './routes/guides.ts'
import { type HistoryNeeds, listHistory } from './routes/history.ts'
import { type InventoryNeeds, inventoryRoutes } from './routes/inventory.ts'
import { landingPage } from './routes/landing.ts'
import { type ListingNeeds, listingRoutes } from './routes/listings.ts'
import { type MarketNeeds, marketRoutes } from './routes/market.ts'
import { type MarketHistoryNeeds, marketHistoryRoutes } from './routes/market-history.ts'
import { listMovers } from './routes/movers.ts'
import { listPortfolioDays, type PortfolioDayNeeds } from './routes/portfolio-days.ts'
import { type PortfolioFileNeeds, portfolioFileRoutes } from './routes/portfolio-files.ts'
import { type PerformanceNeeds, readPortfolioPerformance } from './routes/portfolio-performance.ts'
import { type PortfolioValueNeeds, portfolioValueRoutes } from './routes/portfolio-values.ts'
import { type PortfolioNeeds, portfolioRoutes } from './routes/portfolios.ts'
import { type ProviderNeeds, providerRoutes } from './routes/providers.ts'
import { openListing, type RedirectNeeds } from './routes/redirect.ts'
import { listSales, type SalesNeeds } from './routes/sales.ts'
import { type SignInNeeds, signInRoutes } from './routes/sign-in.ts'
import { type SnapshotNeeds, snapshotRoutes } from './routes/snapshots.ts'
import { type UnsubscribeNeeds, unsubscribePages } from './routes/unsubscribe.ts'
import { type WebhookNeeds, webhookRoutes } from './routes/webhooks.ts'
import { openSite } from './site.ts'

/** What the market's routes are given, each slice its own. */
type MarketDataNeeds = ListingNeeds &
  BatchNeeds &
  SnapshotNeeds &
  CandleNeeds &
  HistoryNeeds &
  SalesNeeds &
  CatalogNeeds &
  ProviderNeeds &
  MarketNeeds &
  MarketHistoryNeeds &
  RedirectNeeds

/** What the routes of accounts are given, each slice its own. */
type OwnDataNeeds = AccountKeyNeeds &
  AccountNeeds &
  AccountDataNeeds &
  WebhookNeeds &
  AlertNeeds &
  PortfolioValueNeeds &
  PortfolioNeeds &
  PortfolioDayNeeds &
  PerformanceNeeds &
  PortfolioFileNeeds &
  InventoryNeeds &
  SignInNeeds

/** What a route opens the reader of a view in Redis from, where that reader keeps no timer and so need not be closed. */
interface StoreNeeds {
  viewStore: ViewStore
}

/** All routes. */
export const apiRoutes = (needs: MarketDataNeeds & OwnDataNeeds & StoreNeeds): Route[] => [
  ...listingRoutes(needs),
  ...batchRoutes(needs),
  ...snapshotRoutes(needs),
  listCandles(needs),
  listHistory(needs),
  listSales(needs),
  ...catalogRoutes(needs),
  ...providerRoutes(needs),
  ...marketRoutes(needs),
  ...marketHistoryRoutes(needs),
  listMovers(needs),
  ...accountKeyRoutes(needs),
  ...webhookRoutes(needs),
  ...alertRoutes(needs),
  ...portfolioValueRoutes(needs),
  ...portfolioRoutes(needs),
  listPortfolioDays(needs),
  readPortfolioPerformance(needs),
  ...portfolioFileRoutes(needs),
  ...inventoryRoutes(needs),
  ...signInRoutes(needs),
  ...accountRoutes(needs),
  ...accountDataRoutes(needs),
  openListing(needs),
]

/** All that is described: the routes, and those of the feeds, which the role `feed` serves. */
export const describedOperations = (
  routes: readonly Route[],
  { registry }: Pick<ListingNeeds, 'registry'>,
): Operation[] => [...routes, ...Object.values(feedOperations(registry.askKeys))]

/** All that is served: the routes, their documents, the guides, the landing page, the console, and the link of alert mails. */
export function apiEndpoints(needs: Parameters<typeof apiRoutes>[0] & UnsubscribeNeeds): Endpoint[] {
  const routes = apiRoutes(needs)
  const { baseUrl, tiers } = needs
  const site = openSite()
  const operations = describedOperations(routes, needs)
  const pages = readGuides({ operations, tiers, baseUrl })
  return [
    ...routes,
    ...documentPages({ operations, guides: pages.guides, baseUrl }, site),
    ...guidePages(pages, site),
    landingPage(needs, site),
    ...consolePages(),
    site.files,
    ...unsubscribePages(needs),
  ]
}
