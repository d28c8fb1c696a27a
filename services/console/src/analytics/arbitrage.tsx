/** Asks that a bid elsewhere exceeds after fees; both prices age, and each says how long. */
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useMemo } from 'react'
import type { ArbitragePair, ListArbitrageParameters } from '#services/clients/typescript/src/marketlog.ts'
import { type Columns, DataTable, NUMBER } from '../design/data-table.tsx'
import { ItemLink } from '../design/item-link.tsx'
import { Age } from '../design/moment.tsx'
import { Empty, Loading, Problem } from '../design/states.tsx'
import { type Currency, useCurrency } from '../session/currency.tsx'
import { ForTier } from '../session/for-tier.tsx'
import { useLink, useMarket, useProviderName } from '../session/market-context.tsx'
import { formatCount, formatPercent, hundredthsOf } from '../values/amounts.ts'
import type { AnalyticsSearch } from './analytics-search.ts'
import { meets, providersOf } from './arbitrage-filters.ts'

const EVERY_MS = 10_000
/** As many as the API gives on one page: what it does not filter itself is looked for in them. */
const COUNT = 1_000

export const Arbitrage = () => (
  <ForTier operation="listArbitrage" of="arbitrage pairs">
    <ArbitragePage />
  </ForTier>
)

function ArbitragePage() {
  const market = useMarket()
  const search = useSearch({ from: '/arbitrage' })
  const { spread = '1' } = search
  const providers = useLink(({ names }) => names.providers)
  const [buy, sell] = useMemo(
    () => [providersOf('buy', search, providers), providersOf('sell', search, providers)],
    [search, providers],
  )
  const hasNoProvider = Object.keys(providers).length > 0 && (buy?.length === 0 || sell?.length === 0)
  const currency = useCurrency()
  const nameOf = useProviderName()
  const columns = useMemo(() => columnsOf(currency, nameOf), [currency, nameOf])
  const { data, error, refetch } = useQuery({
    queryKey: ['arbitrage', buy, sell, spread],
    queryFn: ({ signal }) =>
      market.client().listArbitrage(
        {
          ...{ limit: COUNT, min_spread_pct: Number(spread) },
          ...(buy && { providers_buy: buy }),
          ...(sell && { providers_sell: sell }),
        } as ListArbitrageParameters,
        { signal },
      ),
    // An empty list would ask for all.
    enabled: Object.keys(providers).length > 0 && !hasNoProvider,
    refetchInterval: EVERY_MS,
    placeholderData: before => before,
  })
  const pairs = useMemo(
    () =>
      hasNoProvider ? [] : data?.data.items.filter(pair => meets(pair, search, Date.parse(data.meta.generated_at))),
    [data, search, hasNoProvider],
  )
  const excluded = data?.meta.excluded
  return (
    <div className="page">
      <header className="title">
        <h1>Arbitrage</h1>
        <Filters search={search} />
      </header>
      {error && <Problem error={error} retry={() => void refetch()} />}
      {!pairs && !error && <Loading of="arbitrage" />}
      {data && excluded && (
        <p className="quiet">
          Computed <Age at={data.meta.generated_at} /> ago
          {data.pagination.has_next &&
            (search.capital ?? search.age) !== undefined &&
            `; capital and age are looked for in the ${formatCount(COUNT)} best pairs`}
          . Profit is after the fees of both marketplaces. Left out: quotes that are too old{' '}
          {formatCount(excluded.stale)}, of marketplaces that are down {formatCount(excluded.down)}, quarantined{' '}
          {formatCount(excluded.quarantined)}.
        </p>
      )}
      {pairs && pairs.length === 0 && <Empty>No pair meets these filters now.</Empty>}
      {pairs && pairs.length > 0 && <DataTable label="Pairs" columns={columns} rows={pairs} />}
    </div>
  )
}

function Filters({ search }: { search: AnalyticsSearch }) {
  const navigate = useNavigate({ from: '/arbitrage' })
  const providers = useLink(({ names }) => names.providers)
  const set = (change: AnalyticsSearch): void =>
    void navigate({ search: before => ({ ...before, ...change }), replace: true })
  const numbers = [
    ['spread', 'Least spread, %', '1'],
    ['fee', 'Highest fee, %', 'any'],
    ['capital', 'Most capital, $', 'any'],
    ['age', 'Oldest leg, min', 'any'],
  ] as const
  return (
    <div className="controls">
      {(['buy', 'sell'] as const).map(side => (
        <select
          key={side}
          aria-label={`${side === 'buy' ? 'Buy' : 'Sell'} at`}
          value={search[side] ?? ''}
          onChange={({ target }) => set({ [side]: target.value || undefined })}
        >
          <option value="">{side === 'buy' ? 'Buy' : 'Sell'} at: all</option>
          {Object.entries(providers)
            .filter(([, { hasBids }]) => side === 'buy' || hasBids)
            .map(([provider, { name }]) => (
              <option key={provider} value={provider}>
                {name}
              </option>
            ))}
        </select>
      ))}
      {numbers.map(([name, label, placeholder]) => (
        <label key={name} className="narrow">
          <span className="quiet">{label}</span>{' '}
          <input
            type="number"
            min="0"
            placeholder={placeholder}
            value={search[name] ?? ''}
            onChange={({ target }) => set({ [name]: target.value || undefined })}
          />
        </label>
      ))}
    </div>
  )
}

const columnsOf = (currency: Currency, nameOf: (provider: string) => string): Columns<ArbitragePair> => {
  const dollars = (name: 'net_profit_usd' | 'estimated_fees_usd', header: string): Columns<ArbitragePair>[number] => ({
    accessorFn: pair => Number(pair[name]),
    id: name,
    header,
    meta: NUMBER,
    cell: ({ row }) => currency.ofDollars(hundredthsOf(row.original[name])),
  })
  const leg = (side: 'buy' | 'sell'): Columns<ArbitragePair>[number] => ({
    accessorFn: pair => Number(pair[`${side}_price_usd`]),
    id: side,
    header: side === 'buy' ? 'Buy' : 'Sell',
    cell: ({ row: { original } }) => (
      <>
        {currency.ofDollars(hundredthsOf(original[`${side}_price_usd`]))}{' '}
        <span className="quiet">
          {nameOf(original[`${side}_provider`])}, <Age at={original[`${side}_last_updated`]} />
        </span>
      </>
    ),
  })
  return [
    {
      accessorKey: 'market_hash_name',
      header: 'Item',
      cell: ({ row: { original } }) => (
        <ItemLink id={original.item_id} name={original.market_hash_name} phase={original.phase} />
      ),
    },
    dollars('net_profit_usd', 'Profit'),
    {
      accessorKey: 'gross_spread_pct',
      header: 'Spread',
      meta: NUMBER,
      cell: ({ row }) => formatPercent(row.original.gross_spread_pct),
    },
    leg('buy'),
    leg('sell'),
    dollars('estimated_fees_usd', 'Fees'),
    { accessorKey: 'quantity', header: 'Units', meta: NUMBER, cell: ({ row }) => formatCount(row.original.quantity) },
  ]
}
