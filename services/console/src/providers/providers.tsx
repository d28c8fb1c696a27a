/** How the marketplaces are: whether they answer, how old their last refresh is, and how much of the catalog they have. */
import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import type { Provider } from '#services/clients/typescript/src/marketlog.ts'
import { type Columns, DataTable, NUMBER } from '../design/data-table.tsx'
import { Age } from '../design/moment.tsx'
import { Loading, Problem } from '../design/states.tsx'
import { type Currency, useCurrency } from '../session/currency.tsx'
import { useMarket } from '../session/market-context.tsx'
import { formatCount } from '../values/amounts.ts'

type Row = Provider & { name: string }

export function Providers() {
  const market = useMarket()
  const currency = useCurrency()
  const columns = useMemo(() => columnsOf(currency), [currency])
  const { data, error, refetch } = useQuery({
    queryKey: ['providers'],
    queryFn: ({ signal }) => market.client().listProviders({}, { signal }),
  })
  const rows = useMemo(
    () => Object.entries(data ?? {}).flatMap(([name, provider]) => (provider ? [{ ...provider, name }] : [])),
    [data],
  )
  const down = rows.filter(({ health }) => health.status === 'down').length
  return (
    <div className="page">
      <header className="title">
        <h1>Providers</h1>
        {data && (
          <p className="quiet">
            {rows.length} marketplaces, {down === 0 ? 'all of them up' : `${down} down`}.{' '}
            <button type="button" onClick={() => void refetch()}>
              Read again
            </button>
          </p>
        )}
      </header>
      {error && <Problem error={error} retry={() => void refetch()} />}
      {!data && !error && <Loading of="providers" />}
      {data && (
        <>
          <DataTable label="Providers" columns={columns} rows={rows} />
          <p className="quiet">
            A refresh that is not plausible is quarantined: the prices before it stay, and the last refresh ages. The
            reason is in the topic market.quarantine, which an operator reads.
          </p>
        </>
      )}
    </div>
  )
}

const columnsOf = (currency: Currency): Columns<Row> => [
  { accessorKey: 'name', header: 'Marketplace' },
  {
    accessorFn: ({ health }) => health.status,
    id: 'status',
    header: 'Health',
    cell: ({ row: { original } }) => (
      <span className={original.health.status === 'up' ? 'rise' : 'badge cut'}>{original.health.status}</span>
    ),
  },
  {
    accessorFn: ({ health }) => Date.parse(health.last_checked_at ?? '') || 0,
    id: 'age',
    header: 'Last refresh',
    meta: NUMBER,
    cell: ({ row: { original } }) =>
      original.health.last_checked_at === null ? 'none yet' : <Age at={original.health.last_checked_at} />,
  },
  {
    accessorFn: ({ health }) => health.market_coverage,
    id: 'coverage',
    header: 'Coverage',
    meta: NUMBER,
    cell: ({ row }) => `${row.original.health.market_coverage.toFixed(1)} %`,
  },
  {
    accessorFn: ({ health }) => health.unique_items,
    id: 'items',
    header: 'Items',
    meta: NUMBER,
    cell: ({ row }) => formatCount(row.original.health.unique_items),
  },
  {
    accessorFn: ({ health }) => health.total_offers,
    id: 'offers',
    header: 'Offers',
    meta: NUMBER,
    cell: ({ row }) => formatCount(row.original.health.total_offers),
  },
  {
    accessorFn: ({ health }) => health.total_value_usd,
    id: 'value',
    header: 'Value',
    meta: NUMBER,
    cell: ({ row }) => currency.ofDollars(row.original.health.total_value_usd),
  },
  { accessorKey: 'market_type', header: 'Type' },
  {
    accessorFn: ({ fees }) => fees.sell_fee ?? -1,
    id: 'fee',
    header: 'Selling fee',
    meta: NUMBER,
    cell: ({ row }) =>
      row.original.fees.sell_fee === null ? '–' : `${formatCount(row.original.fees.sell_fee * 100)} %`,
  },
]
