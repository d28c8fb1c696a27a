/** GET /portfolio/:id/history: what a ledger was worth day by day. Rules: DECISIONS.md, "Valuation". */
import type { z } from 'zod'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { HttpError } from '#infra/http/http-error.ts'
import { json } from '#schemas/api/operation.ts'
import { dailyQuery, dailyReply } from '#schemas/api/portfolio-values.ts'
import { DAY_MS, formatDay, parseInstant } from '#schemas/values/instant.ts'
import { findPortfolio } from '#services/portfolios/reader.ts'
import type { ApiContext } from '../context.ts'
import { openCursorPage } from '../cursors.ts'
import { MISSING, OWN } from '../portfolio-access.ts'
import { chosenProviders } from '../queries/listing.ts'
import { type DayValue, openDailyReader } from '../queries/portfolio-days.ts'
import { EXPENSIVE } from '../work-limits.ts'
import { AMOUNTS } from './portfolio-values.ts'

type Daily = z.infer<typeof dailyReply>
type Query = z.infer<ReturnType<typeof dailyQuery>>

/** Items times days that cost what a row does. */
const CELLS_OF_A_ROW = 100

export function listPortfolioDays(api: ApiContext): Route {
  const { store, registry, fx, cursors, now, clickhouse, reads, budget, longWork } = api
  const openDays = openDailyReader({ clickhouse, database: reads, clock: () => performance.now() })
  return defineRoute({
    ...OWN,
    id: 'listPortfolioDays',
    method: 'get',
    path: '/portfolio/:id/history',
    summary: 'Value of a portfolio by day, rebuilt from its ledger',
    description: `From the first transaction to today by default. A day is worth the lowest close among the providers, carried forward where a day has none, at the exchange rates of that day. A page has fewer days than \`limit\` where that many would be more than one request computes, about a million items times days. ${AMOUNTS} Of more than 100,000 items times days that must be computed: ${EXPENSIVE}`,
    query: dailyQuery({ providers: registry.askKeys, isCurrency: fx.isCurrency }),
    reply: json('DailyReply', dailyReply, 'A page of days, oldest first.'),
    errors: MISSING,
    async handle({ params: { id }, query, credential }) {
      const { queried } = chosenProviders(registry.askKeys, query.providers)
      const { version } = await findPortfolio(store, credential.accountId, id)
      const today = Math.floor(now() / DAY_MS)
      const scope = ['portfolio-history', id, query.currency, queried]
      const { before, paginationOf } = openCursorPage(cursors, scope, query)
      const ledger = await openDays({
        portfolioId: id,
        version,
        currency: query.currency,
        providers: query.providers && queried,
        today,
        async run(cells, work) {
          await budget.charge(credential, cells / CELLS_OF_A_ROW)
          return longWork.add(credential.accountId, work)
        },
      })
      const window = before ?? windowOf(query, ledger.firstDay ?? today, today)
      const from = before ? Number(before.after[0]) + 1 : window.start
      const most = Math.min(window.end, from + query.limit - 1)
      const values = await ledger.read(from, most)
      const to = from + values.length - 1
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
        data: values.map((value, i) => dayReply(from + i, value)),
        pagination: paginationOf(to < window.end, position),
      }
    },
  })
}

/** The days that a request asks for; a window of days ends with its last day and holds as many as it says. */
function windowOf(query: Query, firstDay: number, today: number): { start: number; end: number } {
  const dayOf = (text: string): number => (parseInstant(text) as number) / DAY_MS
  const requestedEnd = query.end_date === undefined ? today : dayOf(query.end_date)
  const end = Math.min(requestedEnd, today)
  if (query.lookback !== undefined) return { start: end - query.lookback + 1, end }
  if (query.start_date === undefined) return { start: Math.min(firstDay, end), end }
  const start = dayOf(query.start_date)
  if (start <= requestedEnd) return { start, end: Math.max(end, start - 1) }
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

const dayReply = (day: number, { total, positions, valued }: DayValue): Daily['data'][number] => ({
  date: formatDay(day * DAY_MS),
  total_value: total,
  positions,
  items_valued: valued,
  items_missing_price: positions - valued,
})
