/** uPlot: points or lines over time or another number. */
import 'uplot/dist/uPlot.min.css'
import { useEffect, useRef } from 'react'
import UPlot from 'uplot'
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
  /** Ascending: Unix seconds, or numbers. */
  xs: readonly number[]
  isTime: boolean
  xLabel: string
  series: readonly PlotSeries[]
  formatY: (value: number) => string
}

const HEIGHT_PX = 280
const AXIS_PX = 76

export function Plot({ label, xs, isTime, xLabel, series, formatY }: PlotProps) {
  const box = useRef<HTMLDivElement>(null)
  const theme = useThemeChange()
  // biome-ignore lint/correctness/useExhaustiveDependencies: another theme has other colours
  useEffect(() => {
    const element = box.current
    if (!element) return
    const [ink, line] = [colourOf('--quiet'), colourOf('--line')]
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } }
    const sizeOf = () => ({ width: element.clientWidth, height: HEIGHT_PX })
    const plot = new UPlot(
      {
        ...sizeOf(),
        scales: { x: { time: isTime } },
        axes: [axis, { ...axis, size: AXIS_PX, values: (_, splits) => splits.map(formatY) }],
        series: [
          { label: xLabel },
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
  }, [xs, series, isTime, xLabel, formatY, theme])
  return <div className="plot" ref={box} role="img" aria-label={label} />
}
