/** The items that moved most: up and down beside each other. */
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useMemo } from 'react'
import type { MoversReply } from '#services/clients/typescript/src/marketlog.ts'
import { Choice } from '../design/choice.tsx'
import { type Columns, DataTable, NUMBER } from '../design/data-table.tsx'
import { ItemLink } from '../design/item-link.tsx'
import { Age } from '../design/moment.tsx'
import { Empty, Loading, Problem } from '../design/states.tsx'
import { type Currency, useCurrency } from '../session/currency.tsx'
import { ForTier } from '../session/for-tier.tsx'
import { useMarket } from '../session/market-context.tsx'
import { formatCount, formatPercent, hundredthsOf } from '../values/amounts.ts'

const WINDOWS = ['1h', '24h', '7d'] as const
const EVERY_MS = 60_000
const COUNT = 100

type Mover = MoversReply['data'][number]

export const Movers = () => (
  <ForTier operation="listMovers" of="movers">
    <MoversPage />
  </ForTier>
)

function MoversPage() {
  const market = useMarket()
  const navigate = useNavigate({ from: '/movers' })
  const { window = '24h' } = useSearch({ from: '/movers' })
  const currency = useCurrency()
  const columns = useMemo(() => columnsOf(currency), [currency])
  const { data, error, refetch } = useQuery({
    queryKey: ['movers', window],
    queryFn: ({ signal }) => market.client().listMovers({ window, limit: COUNT }, { signal }),
    refetchInterval: EVERY_MS,
  })
  const moved = data?.data ?? []
  return (
    <div className="page">
      <header className="title">
        <h1>Movers</h1>
        <Choice
          legend="Window"
          values={WINDOWS}
          isChosen={one => one === window}
          onChoose={one =>
            void navigate({
              search: before => ({ ...before, window: one === '24h' ? undefined : one }),
              replace: true,
            })
          }
        />
      </header>
      {error && <Problem error={error} retry={() => void refetch()} />}
      {!data && !error && <Loading of="movers" />}
      {data && moved.length === 0 && <Empty>No best ask has moved in this window. A longer one may have some.</Empty>}
      {data && moved.length > 0 && (
        <>
          <p className="quiet">
            Best asks of <Age at={data.meta.generated_at} /> ago against the start of the window; read again once a
            minute.
          </p>
          <div className="pair even">
            {(['Up', 'Down'] as const).map(way => (
              <section key={way} className="card whole" aria-labelledby={way}>
                <header>
                  <h2 id={way}>{way}</h2>
                </header>
                <DataTable
                  label={`Items that went ${way.toLowerCase()}`}
                  columns={columns}
                  rows={moved.filter(({ change_pct }) => change_pct > 0 === (way === 'Up'))}
                />
              </section>
            ))}
          </div>
        </>
      )}
    </div>
  )
}

const columnsOf = (currency: Currency): Columns<Mover> => [
  {
    accessorKey: 'market_hash_name',
    header: 'Item',
    cell: ({ row: { original } }) => (
      <ItemLink id={original.item_id} name={original.market_hash_name} phase={original.phase} />
    ),
  },
  {
    accessorKey: 'change_pct',
    header: 'Change',
    meta: NUMBER,
    cell: ({ row: { original } }) => (
      <span className={original.change_pct > 0 ? 'rise' : 'fall'}>{formatPercent(original.change_pct)}</span>
    ),
  },
  {
    accessorFn: ({ best_ask_usd }) => Number(best_ask_usd),
    id: 'ask',
    header: 'Best ask',
    meta: NUMBER,
    cell: ({ row }) => currency.ofDollars(hundredthsOf(row.original.best_ask_usd)),
  },
  { accessorKey: 'volume', header: 'Volume', meta: NUMBER, cell: ({ row }) => formatCount(row.original.volume) },
]
