/** Candles with volume and lines; where the tier has a feed the last candle goes on with the best ask. */
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useMemo } from 'react'
import { Choice } from '../design/choice.tsx'
import { Empty, Loading, Problem } from '../design/states.tsx'
import { useCurrency } from '../session/currency.tsx'
import { useTier } from '../session/for-tier.tsx'
import { useMarket } from '../session/market-context.tsx'
import { hasShortCandles } from '../values/tiers.ts'
import { CandleChart } from './candle-chart.tsx'
import { type Bar, INTERVAL_SECONDS, type Interval, withBestAsk } from './growing-candles.ts'
import { INDICATORS, namesOf } from './item-search.ts'
import { useLiveAsks } from './quotes.ts'

const INTERVALS = Object.keys(INTERVAL_SECONDS) as Interval[]
const READ_AGAIN_MS = 60_000

export function CandlesCard({ itemId }: { itemId: number }) {
  const { interval = '1d', lines } = useSearch({ from: '/item/$itemId' })
  const navigate = useNavigate({ from: '/item/$itemId' })
  const names = namesOf(lines)
  const tier = useTier()
  const hasShort = tier !== null && hasShortCandles(tier)
  const { bars, error, retry } = useBars(itemId, hasShort ? interval : '1d')
  const { code } = useCurrency()
  const set = (change: object): void => void navigate({ search: before => ({ ...before, ...change }), replace: true })
  return (
    <section className="card" aria-labelledby="candles">
      <header>
        <h2 id="candles">Price</h2>
        <Choice
          legend="Lines"
          values={INDICATORS}
          isChosen={name => names.includes(name)}
          onChoose={name => {
            const next = names.includes(name) ? names.filter(one => one !== name) : [...names, name]
            set({ lines: next.join() || undefined })
          }}
        />
        <Choice
          legend="Interval"
          values={INTERVALS}
          isChosen={one => one === (hasShort ? interval : '1d')}
          onChoose={one => set({ interval: one === '1d' ? undefined : one })}
          refusalOf={one => (hasShort || one === '1d' ? undefined : 'Begins with the tier pro')}
        />
      </header>
      {error ? (
        <Problem error={error} retry={retry} />
      ) : bars === undefined ? (
        <Loading of="candles" />
      ) : bars.length === 0 ? (
        <Empty>No ask changed in this window. A longer interval may have candles.</Empty>
      ) : (
        <CandleChart key={`${interval} ${code}`} bars={bars} interval={interval} currency={code} names={names} />
      )}
      <p className="quiet">
        <small>
          The composite best ask of all marketplaces. Chart by{' '}
          <a href="https://www.tradingview.com/" rel="noreferrer">
            TradingView Lightweight Charts™
          </a>
        </small>
      </p>
    </section>
  )
}

function useBars(
  itemId: number,
  interval: Interval,
): { bars: readonly Bar[] | undefined; error: unknown; retry: () => void } {
  const market = useMarket()
  const { code, rate } = useCurrency()
  const live = useLiveAsks(itemId)
  const best = live?.[0]
  const { data, error, refetch } = useQuery({
    queryKey: ['candles', itemId, interval, code],
    queryFn: async ({ signal }) => {
      const { data } = await market.client().listCandles({ item_id: itemId, interval, currency: code }, { signal })
      return data.map(({ t, o, h, l, c, v }): Bar => ({ t, o, h, l, c, v }))
    },
    refetchInterval: live ? READ_AGAIN_MS : false,
  })
  const bars = useMemo(() => {
    if (!data || best === undefined || rate === undefined) return data
    return withBestAsk(data, interval, Math.floor(best.seenAt / 1_000), Math.round(best.price * rate))
  }, [data, best, rate, interval])
  return { bars, error, retry: () => void refetch() }
}
