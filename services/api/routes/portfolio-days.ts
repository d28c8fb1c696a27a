/**
 * GET /portfolio/:id/history and /performance: what a ledger was worth day by day, and what it has earned.
 *
 * Rules: DECISIONS.md, "Valuation". Invariant: a page continues the window of the first one, whatever day it has become
 * meanwhile.
 */
import type { Router } from 'express'
import type { z } from 'zod'
import { dailyQuery, type dailyReply, type performanceReply, valueQuery } from '#schemas/api/portfolio-values.ts'
import { portfolioParams } from '#schemas/api/portfolios.ts'
import { formatDay, formatInstant, parseInstant } from '#schemas/values/instant.ts'
import {
  type ItemPerformance,
  performanceOf,
  type RateOn,
  readDayMovements,
  readTrades,
} from '#services/portfolios/ledger/reader.ts'
import { findPortfolio } from '#services/portfolios/reader.ts'
import { type DailyValues, valueHoldings } from '#services/portfolios/values/reader.ts'
import { ApiError, orUnavailable } from '../errors.ts'
import { credentialOf, type Guard } from '../guard.ts'
import type { ApiParts } from '../parts.ts'
import { EVERYBODY, kept, namedItem, storeOf } from '../portfolio-access.ts'
import { readRates } from '../queries/fx-rates.ts'
import { DAY_MS, openDailyReader } from '../queries/portfolio-days.ts'
import { readQuotes } from '../queries/quotes.ts'
import { send } from '../reply.ts'
import { parse, parseParams } from '../request.ts'
import { chosenProviders } from './portfolio-values.ts'

type Daily = z.infer<typeof dailyReply>
type Performance = z.infer<typeof performanceReply>
type Query = z.infer<ReturnType<typeof dailyQuery>>

const DOWN = 'Past prices are temporarily unavailable.'

/** Adds the routes. */
export function addPortfolioDayRoutes(router: Router, guard: Guard, parts: ApiParts): void {
  addHistory(router, guard, parts)
  addPerformance(router, guard, parts)
}

function addHistory(router: Router, guard: Guard, parts: ApiParts): void {
  const { registry, fx, cursors, now, clickhouse, database } = parts
  const schema = dailyQuery({ providers: registry.askKeys, isCurrency: code => fx.isCurrency(code) })
  const days = openDailyReader({
    clickhouse,
    movementsOf: id => kept(readDayMovements(database, id)),
    clock: () => performance.now(),
  })

  router.get('/portfolio/:id/history', guard.account(...EVERYBODY), async (request, response) => {
    const { id } = parseParams(portfolioParams, request)
    const query = parse(schema, request)
    const { queried, chosen } = chosenProviders(parts, query.providers)
    const { version } = await kept(findPortfolio(storeOf(parts), credentialOf(response).accountId, id))
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
    const reply: Daily = {
      meta: {
        ...{ portfolio_id: id, currency: query.currency, providers_queried: [...queried] },
        ...{ start_date: formatDay(window.start * DAY_MS), end_date: formatDay(window.end * DAY_MS) },
        ...{ interval: '1d', holdings_basis: 'ledger_close', valuation_basis: 'best_provider_close' },
      },
      data: Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => dayReply(values, from + i)),
      pagination: {
        ...{ limit: query.limit, offset: 0, total: -1, has_next: hasNext, has_prev: before !== undefined },
        next_cursor: hasNext ? cursors.write(scope, position) : null,
      },
    }
    send(response, 200, JSON.stringify(reply))
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
  throw new ApiError('VALIDATION_ERROR', [
    {
      ...{ type: 'less_than_equal', loc: ['query', 'start_date'], msg: 'Input should not be after end_date' },
      ...{ input: query.start_date, ctx: { le: query.end_date ?? formatDay(today * DAY_MS) } },
    },
  ])
}

function dayReply(values: DailyValues | undefined, day: number): Daily['data'][number] {
  const at = values ? day - values.firstDay : -1
  const positions = values?.positions[at] ?? 0
  const valued = values?.valued[at] ?? 0
  return {
    ...{ date: formatDay(day * DAY_MS), total_value: values?.totals[at] ?? 0 },
    ...{ positions, items_valued: valued, items_missing_price: positions - valued },
  }
}

function addPerformance(router: Router, guard: Guard, parts: ApiParts): void {
  const { registry, fx, live, database, now } = parts
  const schema = valueQuery({ providers: registry.askKeys, isCurrency: code => fx.isCurrency(code) })

  router.get('/portfolio/:id/performance', guard.account(...EVERYBODY), async (request, response) => {
    const { id } = parseParams(portfolioParams, request)
    const query = parse(schema, request)
    const { queried, chosen } = chosenProviders(parts, query.providers)
    const currency = fx.currencyOf(query.currency)
    await kept(findPortfolio(storeOf(parts), credentialOf(response).accountId, id))
    const trades = await kept(readTrades(database, id))
    const codes = new Set([...trades.map(trade => trade.currency), currency.code])
    const [firstDate] = [formatDay(now()), ...trades.map(({ date }) => date)].sort() as [string]
    const rateOn = await orUnavailable(ratesOn(parts, codes, firstDate), 'SERVICE_UNAVAILABLE', DOWN)
    const items = performanceOf(trades, currency.code, rateOn)
    const held = items.filter(({ quantity }) => quantity > 0).map(({ itemId, quantity }) => ({ itemId, quantity }))
    const quotes = await readQuotes(
      live,
      held.map(({ itemId }) => itemId),
      chosen,
    )
    const values = new Map(valueHoldings(held, quotes, currency).lines.map(({ itemId, value }) => [itemId, value]))
    const reply: Performance = {
      meta: {
        ...{ portfolio_id: id, currency: currency.code, generated_at: formatInstant(now()) },
        ...{ providers_queried: [...queried], cost_method: 'fifo', rate_basis: 'transaction_day' },
      },
      data: sumUp(parts, items, values),
    }
    send(response, 200, JSON.stringify(reply))
  })
}

async function ratesOn({ clickhouse }: ApiParts, codes: ReadonlySet<string>, firstDate: string): Promise<RateOn> {
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
  parts: ApiParts,
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
      ...namedItem(parts, item.itemId),
      ...{ quantity: item.quantity, bought: Number(item.bought), sold: Number(item.sold), fees: Number(item.fees) },
      ...{ cost_basis: Number(item.costBasis), market_value: market === null ? null : Number(market) },
      realised_profit: Number(item.realisedProfit),
      unrealised_profit: market === null ? null : Number(market - item.costBasis),
    }
  })
  const held = items.filter(({ quantity }) => quantity > 0).length
  return {
    ...{ bought: Number(sum.bought), sold: Number(sum.sold), fees: Number(sum.fees), cost_basis: Number(sum.cost) },
    ...{ market_value: Number(sum.market), realised_profit: Number(sum.realised) },
    ...{ unrealised_profit: Number(sum.unrealised), total_profit: Number(sum.realised + sum.unrealised) },
    ...{ items_valued: held - missing, items_missing_price: missing, items: rows },
  }
}
