/** One item: what it costs where, how its price went, and what it was sold for. */
import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useEffect } from 'react'
import { Empty, Loading, Problem } from '../design/states.tsx'
import { useCurrency } from '../session/currency.tsx'
import { ForTier, useTier } from '../session/for-tier.tsx'
import { noteItem } from '../session/last-item.ts'
import { useMarket } from '../session/market-context.tsx'
import { formatCount, formatPercent, hundredthsOf } from '../values/amounts.ts'
import { permits } from '../values/tiers.ts'
import { CandlesCard } from './candles-card.tsx'
import { HistoryCard } from './history-card.tsx'
import { LadderCard } from './ladder-card.tsx'
import { type ItemAsks, useAsks } from './quotes.ts'
import { SalesCard } from './sales-card.tsx'

export function Item() {
  const { itemId } = useParams({ from: '/item/$itemId' })
  const market = useMarket()
  const id = Number(itemId)
  const isId = Number.isSafeInteger(id) && id > 0
  useEffect(() => {
    if (!isId) return
    noteItem(itemId)
    market.follow(id)
    return () => market.follow(null)
  }, [market, itemId, id, isId])
  if (!isId)
    return (
      <Empty>
        <h1>There is no item of this number</h1>
        <p>The board leads to all of them.</p>
      </Empty>
    )
  return <ItemPage key={id} itemId={id} />
}

function ItemPage({ itemId }: { itemId: number }) {
  const asks = useAsks(itemId)
  return (
    <div className="page">
      <Title itemId={itemId} asks={asks} />
      <div className="pair">
        <CandlesCard itemId={itemId} />
        <LadderCard itemId={itemId} asks={asks} />
      </div>
      <div className="pair even">
        <section className="card" aria-labelledby="sales">
          <ForTier operation="listSales" of="sales">
            <SalesCard itemId={itemId} />
          </ForTier>
        </section>
        <section className="card" aria-labelledby="history">
          <ForTier operation="getHistoryChart" of="histories by marketplace">
            <HistoryCard itemId={itemId} />
          </ForTier>
        </section>
      </div>
    </div>
  )
}

function Title({ itemId, asks }: { itemId: number; asks: ItemAsks }) {
  const market = useMarket()
  const currency = useCurrency()
  const tier = useTier()
  const { data: figures } = useQuery({
    queryKey: ['market-item', itemId],
    queryFn: ({ signal }) => market.client().getMarketItem({ item_id: itemId }, { signal }),
    enabled: tier !== null && permits(tier, 'getMarketItem'),
  })
  const { data: named } = useQuery({
    queryKey: ['item', itemId],
    queryFn: ({ signal }) => market.client().listItems({ item_id: itemId }, { signal }),
    staleTime: Number.POSITIVE_INFINITY,
  })
  const known = named?.items[0]
  if (asks.error) return <Problem error={asks.error} retry={asks.retry} />
  if (!known) return <Loading of="the item" />
  const best = asks.quotes?.[0]
  const summary = figures?.data.summary
  return (
    <header className="title">
      <div>
        <h1>
          <span className="item-name">{known.market_hash_name}</span>
          {known.phase !== null && <span className="tag">{known.phase}</span>}
        </h1>
        <p className="quiet">
          {[known.item_subtype ?? known.item_type, known.rarity_name, known.collection].filter(Boolean).join(' · ')}
        </p>
      </div>
      <dl className="facts">
        <div className="lead">
          <dt>Best ask</dt>
          <dd data-testid="best-ask">{best ? currency.own(best.price) : '–'}</dd>
        </div>
        {summary && (
          <>
            <Fact name="24 h" value={summary.price_rate_24h} show={formatPercent} isSigned />
            <Fact name="7 d" value={summary.price_rate_7d} show={formatPercent} isSigned />
            <Fact name="Best bid" value={summary.best_bid_usd} show={usd => currency.ofDollars(hundredthsOf(usd))} />
            <Fact name="Volume, 24 h" value={summary.total_volume_24h} show={formatCount} />
            <Fact name="Liquidity" value={summary.liquidity} show={score => score.toFixed(1)} />
          </>
        )}
      </dl>
    </header>
  )
}

function Fact<Value extends string | number>({
  name,
  value,
  show,
  isSigned = false,
}: {
  name: string
  value: Value | null
  show: (value: Value) => string
  isSigned?: boolean
}) {
  const way = !isSigned || value === null || Number(value) === 0 ? undefined : Number(value) > 0 ? 'rise' : 'fall'
  return (
    <div>
      <dt>{name}</dt>
      <dd className={way}>{value === null ? '–' : show(value)}</dd>
    </div>
  )
}
