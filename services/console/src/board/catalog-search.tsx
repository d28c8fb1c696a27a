/** A search where the tier has not all items at hand: one request of the catalog, once the typing pauses. */
import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { type Columns, DataTable } from '../design/data-table.tsx'
import { ItemLink } from '../design/item-link.tsx'
import { Empty, Loading, Problem } from '../design/states.tsx'
import { useMarket } from '../session/market-context.tsx'
import { formatCount } from '../values/amounts.ts'

const PAUSE_MS = 400
const LENGTH_MIN = 2

interface FoundItem {
  item_id: number
  market_hash_name: string
  phase: string | null
  item_subtype: string | null
}

const COLUMNS: Columns<FoundItem> = [
  {
    accessorKey: 'market_hash_name',
    header: 'Item',
    cell: ({ row: { original } }) => (
      <ItemLink id={original.item_id} name={original.market_hash_name} phase={original.phase} />
    ),
  },
  { accessorFn: ({ item_subtype }) => item_subtype ?? '', id: 'class', header: 'Class' },
]

export function CatalogSearch({ text }: { text: string }) {
  const market = useMarket()
  const [asked, setAsked] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setAsked(text), PAUSE_MS)
    return () => clearTimeout(timer)
  }, [text])
  const { data, error, refetch } = useQuery({
    queryKey: ['catalog', asked],
    queryFn: ({ signal }) => market.client().listItems({ q: asked }, { signal }),
    enabled: asked.length >= LENGTH_MIN,
    placeholderData: before => before,
  })
  if (error) return <Problem error={error} retry={() => void refetch()} />
  if (asked.length < LENGTH_MIN) return <Empty>Two letters or more find items.</Empty>
  if (!data) return <Loading of="items" />
  if (data.items.length === 0) return <Empty>The catalog has no item of that name.</Empty>
  return (
    <>
      <p className="quiet">
        {formatCount(data.items.length)} of {formatCount(data.pagination.total)} items; prices are asked for once you
        open one.
      </p>
      <DataTable label="Items found" columns={COLUMNS} rows={data.items} />
    </>
  )
}
