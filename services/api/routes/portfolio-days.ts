/**
 * GET /portfolio/:id/history: what a ledger was worth day by day.
 *
 * Rules: DECISIONS.md, "Valuation".
 */
import type { z } from 'zod'
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { ProviderRegistry } from '#infra/config/providers.ts'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { HttpError, orUnavailable } from '#infra/http/http-error.ts'
import { json } from '#schemas/api/operation.ts'
import { dailyQuery, dailyReply } from '#schemas/api/portfolio-values.ts'
import { formatDay, parseInstant } from '#schemas/values/instant.ts'
import type { PortfolioStore } from '#services/portfolios/commands.ts'
import { readDayMovements } from '#services/portfolios/ledger/reader.ts'
import { findPortfolio } from '#services/portfolios/reader.ts'
import type { DailyValues } from '#services/portfolios/values/reader.ts'
import { type Cursors, cursorPage } from '../cursors.ts'
import { kept, MISSING, OWN } from '../portfolio-access.ts'
import type { FxRates } from '../queries/fx-rates.ts'
import { DAY_MS, openDailyReader } from '../queries/portfolio-days.ts'
import { AMOUNTS, chosenProviders } from './portfolio-values.ts'

/** What the days of a ledger need. */
export interface PortfolioDayNeeds {
  store: PortfolioStore
  registry: ProviderRegistry
  clickhouse: ClickhouseReader
  fx: FxRates
  /** Milliseconds since the epoch. */
  now: () => number
  cursors: Cursors
}

type Daily = z.infer<typeof dailyReply>
type Query = z.infer<ReturnType<typeof dailyQuery>>

/** The detail of the 503 without past prices. */
export const DOWN = 'Past prices are temporarily unavailable.'

/** The route. */
export function listPortfolioDays({ store, registry, fx, cursors, now, clickhouse }: PortfolioDayNeeds): Route {
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
