/** Rules: DECISIONS.md, "Valuation". Ledgers are long: all is read, folded, valued and written in slices. */
import type { z } from 'zod'
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { stream } from '#infra/http/reply.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { nextTurn } from '#infra/runtime/turns.ts'
import type { AnswerCurrency } from '#schemas/api/entry-text.ts'
import { json } from '#schemas/api/operation.ts'
import { performanceReply, valueQuery } from '#schemas/api/portfolio-values.ts'
import { formatDay, formatInstant, parseInstant } from '#schemas/values/instant.ts'
import {
  type ItemPerformance,
  type LedgerCurrencies,
  type RateOn,
  readPerformance,
} from '#services/portfolios/ledger/reader.ts'
import { findPortfolio } from '#services/portfolios/reader.ts'
import { valueHoldings } from '#services/portfolios/values/reader.ts'
import { type ApiContext, readRates } from '../context.ts'
import { namedItem, OWN } from '../portfolio-access.ts'
import { chosenProviders } from '../queries/listing.ts'
import { EXPENSIVE } from '../work-limits.ts'
import { AMOUNTS, PRICED, readQuotes } from './portfolio-values.ts'

type Performance = z.infer<typeof performanceReply>
type ValuedItem = ItemPerformance & { market: bigint | null }

/** Items that are valued at a time, each with up to 41 quotes of either side. */
const VALUED_AT_ONCE = 20
const ROWS_AT_ONCE = 500

export function readPortfolioPerformance(api: ApiContext): Route {
  const { catalog, registry, fx, now, budget, store, longWork } = api
  return defineRoute({
    ...OWN,
    id: 'getPortfolioPerformance',
    method: 'get',
    path: '/portfolio/:id/performance',
    summary: 'Cost basis, realised and unrealised profit of the ledger',
    description: `First in, first out. Each transaction is converted at the exchange rates of its day; a basis holds the fees of its buys. ${AMOUNTS} ${EXPENSIVE}`,
    query: valueQuery({ providers: registry.askKeys, isCurrency: fx.isCurrency }),
    reply: json('PerformanceReply', performanceReply, 'Sums, and one row per item of the ledger.'),
    errors: PRICED,
    admit: ({ credential }) => budget.charge(credential),
    async handle({ params: { id }, query, credential, response }) {
      const { queried, isChosen } = chosenProviders(registry.askKeys, query.providers)
      const currency = fx.currencyOf(query.currency)
      await findPortfolio(store, credential.accountId, id)
      const items = await longWork.add(credential.accountId, () => foldLedger(api, id, currency.code))
      const valued = await valuedItems(api, items, { isChosen, currency })
      const meta = {
        portfolio_id: id,
        currency: currency.code,
        generated_at: formatInstant(now()),
        providers_queried: [...queried],
        cost_method: 'fifo' as const,
        rate_basis: 'transaction_day' as const,
      }
      return stream(response, textOf(meta, valued, catalog))
    },
  })
}

async function foldLedger(
  { longWork, clickhouse, now }: ApiContext,
  portfolioId: string,
  currency: string,
): Promise<readonly ItemPerformance[]> {
  const ratesOf = (currencies: LedgerCurrencies): Promise<RateOn> => {
    const codes = new Set([...currencies.map(one => one.currency), currency])
    const [firstDate] = [formatDay(now()), ...currencies.map(({ first }) => first)].sort() as [string]
    return ratesOn(clickhouse, codes, firstDate)
  }
  return await readPerformance(longWork.database, { portfolioId, currency }, ratesOf)
}

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

/** Adds the values of what is still held: nothing where that is none, null where it has no price. */
async function valuedItems(
  { live }: ApiContext,
  items: readonly ItemPerformance[],
  { isChosen, currency }: { isChosen: (provider: string) => boolean; currency: AnswerCurrency },
): Promise<ValuedItem[]> {
  const all: ValuedItem[] = []
  for (let at = 0; at < items.length; at += VALUED_AT_ONCE) {
    const slice = items.slice(at, at + VALUED_AT_ONCE)
    const ids = slice.flatMap(({ itemId, quantity }) => (quantity > 0 ? itemId : []))
    const { lines } = valueHoldings(slice, await readQuotes(live, ids, isChosen), currency)
    all.push(...slice.map((item, i) => ({ ...item, market: item.quantity === 0 ? 0n : (lines[i]?.value ?? null) })))
    await nextTurn()
  }
  return all
}

/** Market value and unrealised profit are those of priced items; what is held without a price is counted. */
function sumUp(items: readonly ValuedItem[]): Omit<Performance['data'], 'items'> {
  const sumOf = (amountOf: (item: ValuedItem) => bigint): bigint =>
    items.reduce((sum, item) => sum + amountOf(item), 0n)
  const marketValue = sumOf(({ market }) => market ?? 0n)
  const realised = sumOf(item => item.realisedProfit)
  const unrealised = marketValue - sumOf(({ market, costBasis }) => (market === null ? 0n : costBasis))
  const missing = items.filter(({ market }) => market === null).length
  return {
    bought: Number(sumOf(item => item.bought)),
    sold: Number(sumOf(item => item.sold)),
    fees: Number(sumOf(item => item.fees)),
    cost_basis: Number(sumOf(item => item.costBasis)),
    market_value: Number(marketValue),
    realised_profit: Number(realised),
    unrealised_profit: Number(unrealised),
    total_profit: Number(realised + unrealised),
    items_valued: items.filter(({ quantity }) => quantity > 0).length - missing,
    items_missing_price: missing,
  }
}

function rowOf(catalog: CatalogReader, item: ValuedItem): Performance['data']['items'][number] {
  const { market } = item
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
}

/** The answer's text: the sums, then the rows. */
async function* textOf(
  meta: Performance['meta'],
  items: readonly ValuedItem[],
  catalog: CatalogReader,
): AsyncGenerator<string> {
  const sums = JSON.stringify(sumUp(items)).slice(0, -1)
  yield `{"meta":${JSON.stringify(meta)},"data":${sums},"items":[`
  for (let at = 0; at < items.length; at += ROWS_AT_ONCE) {
    const rows = items.slice(at, at + ROWS_AT_ONCE).map(item => rowOf(catalog, item))
    yield `${at === 0 ? '' : ','}${JSON.stringify(rows).slice(1, -1)}`
    await nextTurn()
  }
  yield ']}}'
}
