/**
 * GET /portfolio/:id/history and /performance: what a ledger was worth day by day, and what it has earned.
 *
 * Rules: DECISIONS.md, "Valuation".
 */
import type { z } from 'zod'
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { ProviderRegistry } from '#infra/config/providers.ts'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { HttpError, orUnavailable } from '#infra/http/http-error.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { json } from '#schemas/api/operation.ts'
import { dailyQuery, dailyReply, performanceReply, valueQuery } from '#schemas/api/portfolio-values.ts'
import { formatDay, formatInstant, parseInstant } from '#schemas/values/instant.ts'
import type { PortfolioStore } from '#services/portfolios/commands.ts'
import {
  type ItemPerformance,
  performanceOf,
  type RateOn,
  readDayMovements,
  readTrades,
} from '#services/portfolios/ledger/reader.ts'
import { findPortfolio } from '#services/portfolios/reader.ts'
import { type DailyValues, valueHoldings } from '#services/portfolios/values/reader.ts'
import { type Cursors, cursorPage } from '../cursors.ts'
import { kept, MISSING, namedItem, OWN } from '../portfolio-access.ts'
import { type FxRates, readRates } from '../queries/fx-rates.ts'
import type { LiveView } from '../queries/live-view.ts'
import { DAY_MS, openDailyReader } from '../queries/portfolio-days.ts'
import { readQuotes } from '../queries/quotes.ts'
import { AMOUNTS, chosenProviders, PRICED } from './portfolio-values.ts'

interface PastNeeds {
  store: PortfolioStore
  registry: ProviderRegistry
  clickhouse: ClickhouseReader
  fx: FxRates
  /** Milliseconds since the epoch. */
  now: () => number
}

interface DayNeeds extends PastNeeds {
  cursors: Cursors
}

interface PerformanceNeeds extends PastNeeds {
  catalog: CatalogReader
  live: LiveView
}

/** What the days and the performance of a ledger need. */
export type PortfolioDayNeeds = DayNeeds & PerformanceNeeds

type Daily = z.infer<typeof dailyReply>
type Performance = z.infer<typeof performanceReply>
type Query = z.infer<ReturnType<typeof dailyQuery>>

const DOWN = 'Past prices are temporarily unavailable.'

/** Both routes. */
export const portfolioDayRoutes = (needs: PortfolioDayNeeds): Route[] => [
  listPortfolioDays(needs),
  readPerformance(needs),
]

function listPortfolioDays({ store, registry, fx, cursors, now, clickhouse }: DayNeeds): Route {
  const days = openDailyReader({
    clickhouse,
    movementsOf: id => kept(readDayMovements(store.database, id)),
    clock: () => performance.now(),
  })
  return defineRoute({
    ...OWN,
    id: 'listPortfolioDays',
    method: 'get',
    path: '/portfolio/:id/history',
    summary: 'Value of a portfolio by day, rebuilt from its ledger',
    description: `From the first transaction to today by default. A day is worth the lowest close among the providers, carried forward where a day has none, at the exchange rates of that day. ${AMOUNTS}`,
    query: dailyQuery({ providers: registry.askKeys, isCurrency: code => fx.isCurrency(code) }),
    reply: json('DailyReply', dailyReply, 'A page of days, oldest first.'),
    errors: MISSING,
    async handle({ params: { id }, query, credential }) {
      const { queried, chosen } = chosenProviders(registry, query.providers)
      const { version } = await kept(findPortfolio(store, credential.accountId, id))
      const today = Math.floor(now() / DAY_MS)
      const scope = ['portfolio-history', id, query.currency, queried]
      const before = query.cursor === undefined ? undefined : cursors.read(scope, query.cursor)
      const providers = chosen && queried
      const reading = days.read({ portfolioId: id, version, currency: query.currency, providers, today })
      const values = await orUnavailable(reading, 'SERVICE_UNAVAILABLE', DOWN)
      const window = before ?? windowOf(query, values?.firstDay ?? today, today)
      const from = before ? Number(before.after[0]) + 1 : window.start
      const to = Math.min(window.end, from + query.limit - 1)
      const hasNext = to < window.end
      const position = { start: window.start, end: window.end, after: [to] }
      return {
        meta: {
          portfolio_id: id,
          currency: query.currency,
          providers_queried: [...queried],
          start_date: formatDay(window.start * DAY_MS),
          end_date: formatDay(window.end * DAY_MS),
          interval: '1d',
          holdings_basis: 'ledger_close',
          valuation_basis: 'best_provider_close',
        },
        data: Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => dayReply(values, from + i)),
        pagination: cursorPage(query.limit, {
          hasNext,
          hasPrev: before !== undefined,
          next: hasNext ? cursors.write(scope, position) : null,
        }),
      }
    },
  })
}

/** The days that a request asks for; a window of days ends with its last day and holds as many as it says. */
function windowOf(query: Query, firstDay: number, today: number): { start: number; end: number } {
  const dayOf = (text: string): number => (parseInstant(text) as number) / DAY_MS
  const wantedEnd = query.end_date === undefined ? today : dayOf(query.end_date)
  const end = Math.min(wantedEnd, today)
  if (query.lookback !== undefined) return { start: end - query.lookback + 1, end }
  if (query.start_date === undefined) return { start: Math.min(firstDay, end), end }
  const start = dayOf(query.start_date)
  if (start <= wantedEnd) return { start, end: Math.max(end, start - 1) }
  throw new HttpError('VALIDATION_ERROR', [
    {
      type: 'less_than_equal',
      loc: ['query', 'start_date'],
      msg: 'Input should not be after end_date',
      input: query.start_date,
      ctx: { le: query.end_date ?? formatDay(today * DAY_MS) },
    },
  ])
}

function dayReply(values: DailyValues | undefined, day: number): Daily['data'][number] {
  const at = values ? day - values.firstDay : -1
  const positions = values?.positions[at] ?? 0
  const valued = values?.valued[at] ?? 0
  return {
    date: formatDay(day * DAY_MS),
    total_value: values?.totals[at] ?? 0,
    positions,
    items_valued: valued,
    items_missing_price: positions - valued,
  }
}

const readPerformance = ({ store, catalog, registry, fx, live, clickhouse, now }: PerformanceNeeds): Route =>
  defineRoute({
    ...OWN,
    id: 'readPerformance',
    method: 'get',
    path: '/portfolio/:id/performance',
    summary: 'Cost basis, realised and unrealised profit of the ledger',
    description: `First in, first out. Each transaction is converted at the exchange rates of its day; a basis holds the fees of its buys. ${AMOUNTS}`,
    query: valueQuery({ providers: registry.askKeys, isCurrency: code => fx.isCurrency(code) }),
    reply: json('PerformanceReply', performanceReply, 'Sums, and one row per item of the ledger.'),
    errors: PRICED,
    async handle({ params: { id }, query, credential }) {
      const { queried, chosen } = chosenProviders(registry, query.providers)
      const currency = fx.currencyOf(query.currency)
      await kept(findPortfolio(store, credential.accountId, id))
      const trades = await kept(readTrades(store.database, id))
      const codes = new Set([...trades.map(trade => trade.currency), currency.code])
      const [firstDate] = [formatDay(now()), ...trades.map(({ date }) => date)].sort() as [string]
      const rateOn = await orUnavailable(ratesOn(clickhouse, codes, firstDate), 'SERVICE_UNAVAILABLE', DOWN)
      const items = performanceOf(trades, currency.code, rateOn)
      const held = items.filter(({ quantity }) => quantity > 0).map(({ itemId, quantity }) => ({ itemId, quantity }))
      const quotes = await readQuotes(
        live,
        held.map(({ itemId }) => itemId),
        chosen,
      )
      const values = new Map(valueHoldings(held, quotes, currency).lines.map(({ itemId, value }) => [itemId, value]))
      return {
        meta: {
          portfolio_id: id,
          currency: currency.code,
          generated_at: formatInstant(now()),
          providers_queried: [...queried],
          cost_method: 'fifo',
          rate_basis: 'transaction_day',
        },
        data: sumUp(catalog, items, values),
      }
    },
  })

async function ratesOn(clickhouse: ClickhouseReader, codes: ReadonlySet<string>, firstDate: string): Promise<RateOn> {
  const first = parseInstant(firstDate) as number
  const read = [...codes].map(async code => [code, await readRates(clickhouse, code, first)] as const)
  const rates = new Map(await Promise.all(read))
  return (code, date) => {
    const rateAt = rates.get(code)
    if (!rateAt) throw new Error(`the rates of ${code} were not read`)
    return rateAt(parseInstant(date) as number)
  }
}

/** Market value and unrealised profit are those of priced items; what is held without a price is counted. */
function sumUp(
  catalog: CatalogReader,
  items: readonly ItemPerformance[],
  values: ReadonlyMap<number, bigint | null>,
): Performance['data'] {
  const sum = { bought: 0n, sold: 0n, fees: 0n, cost: 0n, realised: 0n, market: 0n, unrealised: 0n }
  let missing = 0
  const rows = items.map((item): Performance['data']['items'][number] => {
    const market = item.quantity === 0 ? 0n : (values.get(item.itemId) ?? null)
    sum.bought += item.bought
    sum.sold += item.sold
    sum.fees += item.fees
    sum.cost += item.costBasis
    sum.realised += item.realisedProfit
    if (market === null) missing += 1
    else {
      sum.market += market
      sum.unrealised += market - item.costBasis
    }
    return {
      ...namedItem(catalog, item.itemId),
      quantity: item.quantity,
      bought: Number(item.bought),
      sold: Number(item.sold),
      fees: Number(item.fees),
      cost_basis: Number(item.costBasis),
      market_value: market === null ? null : Number(market),
      realised_profit: Number(item.realisedProfit),
      unrealised_profit: market === null ? null : Number(market - item.costBasis),
    }
  })
  const held = items.filter(({ quantity }) => quantity > 0).length
  return {
    bought: Number(sum.bought),
    sold: Number(sum.sold),
    fees: Number(sum.fees),
    cost_basis: Number(sum.cost),
    market_value: Number(sum.market),
    realised_profit: Number(sum.realised),
    unrealised_profit: Number(sum.unrealised),
    total_profit: Number(sum.realised + sum.unrealised),
    items_valued: held - missing,
    items_missing_price: missing,
    items: rows,
  }
}
