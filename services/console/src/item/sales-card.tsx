/** The sales of the item: a point for each sale, by time or by its float, and the latest in a table. */
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useMemo } from 'react'
import type { Sale } from '#services/clients/typescript/src/marketlog.ts'
import { Choice } from '../design/choice.tsx'
import { type Columns, DataTable, NUMBER } from '../design/data-table.tsx'
import { Age } from '../design/moment.tsx'
import { Plot } from '../design/plot.tsx'
import { Empty, Loading, Problem } from '../design/states.tsx'
import { useCurrency } from '../session/currency.tsx'
import { useMarket, useProviderName } from '../session/market-context.tsx'
import { formatAmount } from '../values/amounts.ts'

const LATEST = 20

export function SalesCard({ itemId }: { itemId: number }) {
  const market = useMarket()
  const { code } = useCurrency()
  const { sales: by } = useSearch({ from: '/item/$itemId' })
  const navigate = useNavigate({ from: '/item/$itemId' })
  const { data, error, refetch } = useQuery({
    queryKey: ['sales', itemId, code],
    queryFn: ({ signal }) => market.client().listSales({ item_id: itemId, currency: code }, { signal }),
  })
  const isByFloat = by === 'float'
  return (
    <>
      <header>
        <h2 id="sales">Sales</h2>
        <Choice
          legend="Sales by"
          values={['time', 'float']}
          textOf={axis => `by ${axis}`}
          isChosen={axis => isByFloat === (axis === 'float')}
          onChoose={axis =>
            void navigate({
              search: before => ({ ...before, sales: axis === 'float' ? axis : undefined }),
              replace: true,
            })
          }
        />
      </header>
      {error ? (
        <Problem error={error} retry={() => void refetch()} />
      ) : !data ? (
        <Loading of="sales" />
      ) : data.items.length === 0 ? (
        <Empty>No marketplace has reported a sale of it.</Empty>
      ) : (
        <>
          <Scatter sales={data.items} isByFloat={isByFloat} currency={code} />
          <LatestSales sales={data.items.slice(0, LATEST)} currency={code} />
        </>
      )}
    </>
  )
}

function Scatter({ sales, isByFloat, currency }: { sales: readonly Sale[]; isByFloat: boolean; currency: string }) {
  const { xs, series } = useMemo(() => {
    const points = sales
      .flatMap(({ date, float, price }) => {
        const x = isByFloat ? float : Date.parse(date) / 1_000
        return x === null ? [] : [{ x, price }]
      })
      .toSorted((a, b) => a.x - b.x)
    const values = points.map(({ price }) => price)
    return { xs: points.map(({ x }) => x), series: [{ label: 'Price', colour: '--accent', values, isPoints: true }] }
  }, [sales, isByFloat])
  const formatY = useMemo(() => (price: number) => formatAmount(Math.round(price), currency), [currency])
  if (xs.length === 0) return <Empty>No sale came with a float.</Empty>
  const label = `${xs.length} sales by ${isByFloat ? 'float' : 'time'}; the latest are in the table below`
  return (
    <Plot
      label={label}
      xs={xs}
      kind={isByFloat ? 'number' : 'moment'}
      xLabel={isByFloat ? 'Float' : 'Sold'}
      series={series}
      formatY={formatY}
    />
  )
}

function LatestSales({ sales, currency }: { sales: readonly Sale[]; currency: string }) {
  const nameOf = useProviderName()
  const columns = useMemo(
    (): Columns<Sale> => [
      { accessorKey: 'date', header: 'Sold', cell: ({ row }) => <Age at={row.original.date} /> },
      { accessorFn: ({ provider }) => nameOf(provider), id: 'provider', header: 'Marketplace' },
      {
        accessorKey: 'price',
        header: 'Price',
        meta: NUMBER,
        cell: ({ row }) => formatAmount(row.original.price, currency),
      },
      { accessorKey: 'float', header: 'Float', meta: NUMBER, cell: ({ row }) => row.original.float?.toFixed(4) ?? '–' },
    ],
    [nameOf, currency],
  )
  return <DataTable label="Latest sales" columns={columns} rows={sales} />
}
