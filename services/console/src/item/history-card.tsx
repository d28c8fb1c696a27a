/** The asks of each marketplace, day by day; those with the most days are shown first. */
import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import type { HistoryChartReply } from '#services/clients/typescript/src/marketlog.ts'
import { Choice } from '../design/choice.tsx'
import { Plot } from '../design/plot.tsx'
import { Empty, Loading, Problem } from '../design/states.tsx'
import { useCurrency } from '../session/currency.tsx'
import { useMarket, useProviderName } from '../session/market-context.tsx'
import { formatAmount } from '../values/amounts.ts'

const LOOKBACK_DAYS = 365
const COLOURS = [1, 2, 3, 4, 5, 6].map(one => `--series-${one}`)

type Series = HistoryChartReply['series'][number]

export function HistoryCard({ itemId }: { itemId: number }) {
  const market = useMarket()
  const { code } = useCurrency()
  const { data, error, refetch } = useQuery({
    queryKey: ['history', itemId, code],
    queryFn: ({ signal }) =>
      market.client().getHistoryChart({ item_id: itemId, lookback: LOOKBACK_DAYS, currency: code }, { signal }),
  })
  return (
    <>
      <header>
        <h2 id="history">A year by marketplace</h2>
      </header>
      {error ? (
        <Problem error={error} retry={() => void refetch()} />
      ) : !data ? (
        <Loading of="history" />
      ) : data.series.length === 0 ? (
        <Empty>No day of it is known yet.</Empty>
      ) : (
        <Lines series={data.series} currency={code} />
      )}
    </>
  )
}

function Lines({ series, currency }: { series: readonly Series[]; currency: string }) {
  const nameOf = useProviderName()
  const known = useMemo(() => series.toSorted((a, b) => b.data.length - a.data.length), [series])
  const [chosen, setChosen] = useState(() => new Set(known.slice(0, COLOURS.length).map(({ provider }) => provider)))
  const lines = useMemo(() => {
    const shown = known.filter(({ provider }) => chosen.has(provider))
    const xs = [...new Set(shown.flatMap(({ data }) => data.map(({ t }) => t)))].toSorted((a, b) => a - b)
    return {
      xs,
      series: shown.map(({ provider, data }, at) => {
        const prices = new Map(data.map(({ t, price }) => [t, price]))
        const colour = COLOURS[at % COLOURS.length] as string
        return { label: nameOf(provider), colour, values: xs.map(t => prices.get(t) ?? null), isPoints: xs.length < 3 }
      }),
    }
  }, [known, chosen, nameOf])
  const formatY = useMemo(() => (price: number) => formatAmount(Math.round(price), currency), [currency])
  const toggle = (provider: string): void =>
    setChosen(
      before => new Set(before.has(provider) ? [...before].filter(one => one !== provider) : [...before, provider]),
    )
  return (
    <>
      <Plot
        label={`Daily asks of ${lines.series.length} marketplaces`}
        {...lines}
        kind="day"
        xLabel="Day"
        formatY={formatY}
      />
      <Choice
        legend="Marketplaces"
        values={known.map(({ provider }) => provider)}
        textOf={nameOf}
        isChosen={provider => chosen.has(provider)}
        onChoose={toggle}
      />
    </>
  )
}
