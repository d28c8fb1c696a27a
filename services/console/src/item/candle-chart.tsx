/** lightweight-charts on a canvas: made once; then its data changes, and of that what is new alone. */
import {
  CandlestickSeries,
  createChart,
  HistogramSeries,
  type IChartApi,
  type ISeriesApi,
  LineSeries,
  type SeriesDataItemTypeMap,
  type SeriesType,
  TickMarkType,
  type UTCTimestamp,
} from 'lightweight-charts'
import { useEffect, useRef } from 'react'
import { colourOf, useThemeChange } from '../design/colours.ts'
import { formatAmount } from '../values/amounts.ts'
import { formatLocal, formatTick, formatUtc } from '../values/times.ts'
import { type Bar, changedFrom, type Interval } from './growing-candles.ts'
import { linesOf } from './indicators.ts'
import { INDICATORS, type IndicatorName } from './item-search.ts'

interface CandleChartProps {
  bars: readonly Bar[]
  interval: Interval
  currency: string
  names: readonly IndicatorName[]
}

interface Drawn {
  chart: IChartApi
  candles: ISeriesApi<'Candlestick'>
  volume: ISeriesApi<'Histogram'>
  lines: ISeriesApi<'Line'>[]
  bars: readonly Bar[]
  names: string
}

const timeOf = (t: number): UTCTimestamp => t as UTCTimestamp

/** A colour for each of `INDICATORS`. */
const LINE_COLOURS = ['--series-2', '--series-4', '--series-6', '--series-5']
const FIRST_BARS = 120

export function CandleChart({ bars, interval, currency, names }: CandleChartProps) {
  const box = useRef<HTMLDivElement>(null)
  const drawn = useRef<Drawn>(undefined)
  const theme = useThemeChange()
  const lineNames = names.join()
  // biome-ignore lint/correctness/useExhaustiveDependencies: another theme has other colours
  useEffect(() => {
    if (!box.current) return
    const made = draw(box.current, interval, currency)
    drawn.current = made
    return () => {
      drawn.current = undefined
      made.chart.remove()
    }
  }, [interval, currency, theme])
  // biome-ignore lint/correctness/useExhaustiveDependencies: a chart that is drawn again takes its data again
  useEffect(() => {
    if (drawn.current) show(drawn.current, bars, names)
  }, [bars, lineNames, theme])
  const last = bars.at(-1)
  const label =
    last &&
    `${bars.length} candles of ${interval}, the last from ${formatAmount(last.o, currency)} to ${formatAmount(last.c, currency)}, ${last.v} units`
  return <div className="chart" ref={box} role="img" aria-label={label} data-last-close={last?.c} />
}

function draw(box: HTMLElement, interval: Interval, currency: string): Drawn {
  const [ink, line, rise, fall, wash] = ['--quiet', '--line', '--rise', '--fall', '--wash'].map(colourOf)
  const isOfDays = interval === '1d'
  const chart = createChart(box, {
    autoSize: true,
    layout: {
      attributionLogo: false,
      background: { color: 'transparent' },
      ...(ink && { textColor: ink }),
      ...(line && { panes: { separatorColor: line } }),
      fontFamily: getComputedStyle(box).fontFamily,
    },
    grid: { vertLines: { visible: false }, ...(line && { horzLines: { color: line } }) },
    timeScale: {
      timeVisible: !isOfDays,
      borderVisible: false,
      // The library writes UTC; a day of the API's candles is one of UTC, an hour is shown in the person's zone.
      ...(!isOfDays && {
        tickMarkFormatter: (t: number, type: TickMarkType) => formatTick(t * 1_000, type < TickMarkType.Time),
      }),
    },
    rightPriceScale: { borderVisible: false, scaleMargins: { top: 0.08, bottom: 0.25 } },
    localization: {
      timeFormatter: (t: number) =>
        isOfDays ? formatUtc(t * 1_000).slice(0, 10) : `${formatLocal(t * 1_000)} (${formatUtc(t * 1_000).slice(11)})`,
    },
  })
  const colours = rise && fall ? { upColor: rise, downColor: fall, wickUpColor: rise, wickDownColor: fall } : {}
  const formatter = (price: number): string => formatAmount(Math.round(price), currency)
  const priceFormat = { type: 'custom' as const, formatter, minMove: 1 }
  const candles = chart.addSeries(CandlestickSeries, { ...colours, borderVisible: false, priceFormat })
  const volume = chart.addSeries(HistogramSeries, {
    priceScaleId: 'volume',
    priceFormat: { type: 'volume' },
    priceLineVisible: false,
    lastValueVisible: false,
    ...(wash && { color: wash }),
  })
  chart.priceScale('volume').applyOptions({ scaleMargins: { top: 0.82, bottom: 0 } })
  chart.timeScale().applyOptions({ barSpacing: Math.max(6, box.clientWidth / FIRST_BARS) })
  return { chart, candles, volume, lines: [], bars: [], names: '' }
}

function show(drawn: Drawn, bars: readonly Bar[], names: readonly IndicatorName[]): void {
  const { candles, volume } = drawn
  const from = changedFrom(drawn.bars, bars)
  put(candles, bars, from, ({ t, o, h, l, c }) => ({ time: timeOf(t), open: o, high: h, low: l, close: c }))
  put(volume, bars, from, ({ t, v }) => ({ time: timeOf(t), value: v }))
  const lines = names.flatMap(name => linesOf(name, bars).map(points => ({ name, points })))
  const isNew = drawn.names !== names.join()
  if (isNew)
    setLines(
      drawn,
      lines.map(({ name }) => name),
    )
  for (const [at, { points }] of lines.entries()) {
    // Points end where bars do, and begin later.
    const fromPoint = isNew ? 0 : Math.max(0, from - bars.length + points.length)
    put(drawn.lines[at], points, fromPoint, ({ t, value }) => ({ time: timeOf(t), value }))
  }
  Object.assign(drawn, { bars, names: names.join() })
}

/** Draws all data, or what is new of it: all of it, ten times a second, would be the work of a page's thread. */
function put<Kind extends SeriesType, Value>(
  series: ISeriesApi<Kind> | undefined,
  values: readonly Value[],
  from: number,
  make: (value: Value) => SeriesDataItemTypeMap[Kind],
): void {
  if (from === 0) series?.setData(values.map(make))
  else for (const value of values.slice(from)) series?.update(make(value))
}

function setLines(drawn: Drawn, names: readonly IndicatorName[]): void {
  for (const line of drawn.lines) drawn.chart.removeSeries(line)
  drawn.lines = names.map(name => {
    const isOscillator = name === 'RSI 14'
    const options = {
      lineWidth: 1 as const,
      color: colourOf(LINE_COLOURS[INDICATORS.indexOf(name)] ?? '--ink'),
      priceLineVisible: false,
      lastValueVisible: isOscillator,
      title: isOscillator ? name : '',
    }
    const format = isOscillator && {
      priceFormat: { type: 'custom' as const, formatter: (value: number) => value.toFixed(0) },
    }
    return drawn.chart.addSeries(LineSeries, { ...options, ...format }, isOscillator ? 1 : 0)
  })
}
