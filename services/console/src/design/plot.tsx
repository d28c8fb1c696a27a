/** uPlot: points or lines over time or another number. */
import 'uplot/dist/uPlot.min.css'
import { useEffect, useRef } from 'react'
import UPlot from 'uplot'
import { formatLocal, formatTick, formatUtc } from '../values/times.ts'
import { colourOf, useThemeChange } from './colours.ts'

interface PlotSeries {
  label: string
  /** A variable of the design. */
  colour: string
  values: readonly (number | null)[]
  isPoints?: boolean
}

interface PlotProps {
  /** For screen readers. */
  label: string
  /** Ascending: numbers, or Unix seconds of days of UTC or of moments. */
  xs: readonly number[]
  kind: keyof typeof KINDS
  xLabel: string
  series: readonly PlotSeries[]
  formatY: (value: number) => string
}

const UTC = 'Etc/UTC'
const DAY_S = 86_400
const KINDS = {
  day: { zone: UTC, show: (t: number) => formatUtc(t * 1_000).slice(0, 10) },
  moment: { zone: undefined, show: (t: number) => formatLocal(t * 1_000) },
  number: { zone: undefined, show: (x: number) => x.toFixed(4) },
} as const

const HEIGHT_PX = 280
const AXIS_PX = 76

export function Plot({ label, xs, kind, xLabel, series, formatY }: PlotProps) {
  const box = useRef<HTMLDivElement>(null)
  const theme = useThemeChange()
  // biome-ignore lint/correctness/useExhaustiveDependencies: another theme has other colours
  useEffect(() => {
    const element = box.current
    if (!element) return
    const [ink, line] = [colourOf('--quiet'), colourOf('--line')]
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } }
    const { zone, show } = KINDS[kind]
    const ticks = (_: UPlot, splits: number[], _axis: number, _space: number, step: number): string[] =>
      splits.map(t => formatTick(t * 1_000, step >= DAY_S, zone))
    const xAxis = kind === 'number' ? axis : { ...axis, values: ticks }
    const sizeOf = () => ({ width: element.clientWidth, height: HEIGHT_PX })
    const plot = new UPlot(
      {
        ...sizeOf(),
        scales: { x: { time: kind !== 'number' } },
        ...(zone && { tzDate: (t: number) => UPlot.tzDate(new Date(t * 1_000), zone) }),
        axes: [xAxis, { ...axis, size: AXIS_PX, values: (_, splits) => splits.map(formatY) }],
        series: [
          { label: xLabel, value: (_: UPlot, x: number | null) => (x === null ? '–' : show(x)) },
          ...series.map(({ label, colour, isPoints = false }) => {
            const stroke = colourOf(colour)
            const points = isPoints ? { show: true, size: 6, fill: stroke, stroke } : { show: false }
            return {
              ...{ label, stroke, width: 1.5, points, spanGaps: true },
              ...(isPoints && { paths: () => null }),
              value: (_: UPlot, value: number | null) => (value === null ? '–' : formatY(value)),
            }
          }),
        ],
      },
      [[...xs], ...series.map(({ values }) => [...values])],
      element,
    )
    const resized = new ResizeObserver(() => plot.setSize(sizeOf()))
    resized.observe(element)
    return () => {
      resized.disconnect()
      plot.destroy()
    }
  }, [xs, series, kind, xLabel, formatY, theme])
  return <div className="plot" ref={box} role="img" aria-label={label} />
}
