/** The worth of all units in circulation, by class. */
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useMemo } from 'react'
import type { IndexesReply } from '#services/clients/typescript/src/marketlog.ts'
import { Choice } from '../design/choice.tsx'
import { type Columns, DataTable, NUMBER } from '../design/data-table.tsx'
import { Age } from '../design/moment.tsx'
import { Loading, Problem } from '../design/states.tsx'
import { type Currency, useCurrency } from '../session/currency.tsx'
import { ForTier } from '../session/for-tier.tsx'
import { useMarket } from '../session/market-context.tsx'
import { formatCount, hundredthsOf } from '../values/amounts.ts'

const GROUPS = ['item_type', 'weapon_type'] as const
const GROUP_TEXTS = { item_type: 'by class', weapon_type: 'by weapon' } as const
const EVERY_MS = 120_000

type Group = IndexesReply['data']['groups'][number]

export const Indexes = () => (
  <ForTier operation="listMarketIndexes" of="indexes">
    <IndexesPage />
  </ForTier>
)

function IndexesPage() {
  const market = useMarket()
  const navigate = useNavigate({ from: '/indexes' })
  const { group = 'item_type' } = useSearch({ from: '/indexes' })
  const currency = useCurrency()
  const columns = useMemo(() => columnsOf(currency), [currency])
  const { data, error, refetch } = useQuery({
    queryKey: ['indexes', group],
    queryFn: ({ signal }) => market.client().listMarketIndexes({ group_by: group }, { signal }),
    refetchInterval: EVERY_MS,
  })
  return (
    <div className="page">
      <header className="title">
        <h1>Indexes</h1>
        <Choice
          legend="Groups"
          values={GROUPS}
          textOf={name => GROUP_TEXTS[name]}
          isChosen={name => name === group}
          onChoose={name =>
            void navigate({
              search: before => ({ ...before, group: name === 'item_type' ? undefined : name }),
              replace: true,
            })
          }
        />
      </header>
      {error && <Problem error={error} retry={() => void refetch()} />}
      {!data && !error && <Loading of="indexes" />}
      {data && (
        <>
          <dl className="facts">
            <div className="lead">
              <dt>Market capitalization</dt>
              <dd>{currency.ofDollars(hundredthsOf(data.data.total_marketcap_usd))}</dd>
            </div>
            <div>
              <dt>Computed</dt>
              <dd>
                <Age at={data.meta.generated_at} /> ago
              </dd>
            </div>
          </dl>
          <DataTable label="Groups" columns={columns} rows={data.data.groups} />
        </>
      )}
    </div>
  )
}

const columnsOf = (currency: Currency): Columns<Group> => [
  { accessorKey: 'group', header: 'Group' },
  {
    accessorFn: ({ marketcap_usd }) => Number(marketcap_usd),
    id: 'marketcap',
    header: 'Capitalization',
    meta: NUMBER,
    cell: ({ row }) => currency.ofDollars(hundredthsOf(row.original.marketcap_usd)),
  },
  { accessorKey: 'item_count', header: 'Items', meta: NUMBER, cell: ({ row }) => formatCount(row.original.item_count) },
  {
    accessorKey: 'excluded_count',
    header: 'Left out',
    meta: NUMBER,
    cell: ({ row }) => formatCount(row.original.excluded_count),
  },
]
