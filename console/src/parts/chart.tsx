import { useComputedColorScheme } from '@mantine/core'
import { useEffect, useRef } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import type { Curve } from './runs/curves.ts'

interface ChartProps {
  label: string
  xName: string
  x: number[]
  curves: Curve[]
  /** True if x is a time in epoch seconds; lines then have gaps where values are missing, and a linear scale. */
  isTime?: boolean
}

const COLOURS = {
  light: ['#1450b8', '#b4460a', '#146c2e', '#7b2cbf', '#8a6d00', '#a3154f', '#00696e', '#5f6368'],
  dark: ['#9cc2ff', '#ffab70', '#7ddc96', '#d0a8ff', '#f2d06b', '#ff9dc0', '#6fd6dc', '#c9c9c9'],
}
const HEIGHT = 280
/** A loss of billions has to fit next to the chart. */
const short = new Intl.NumberFormat('en', {
  notation: 'compact',
  maximumSignificantDigits: 4,
})
/** uPlot omits some of the labels of a logarithmic scale. */
const figure = (value: number | null): string =>
  value === null ? '' : Math.abs(value) < 0.001 && value !== 0 ? value.toExponential(2) : short.format(value)

const WIDE = 100

/** Returns whether the first losses are so large that all others would be a flat line. */
function isWide(curves: readonly Curve[]): boolean {
  let [least, most] = [Number.POSITIVE_INFINITY, 0]
  for (const { values } of curves)
    for (const value of values)
      if (value !== null) [least, most] = [Math.min(least, value), Math.max(most, value)]
  return least > 0 && most > WIDE * least
}

function showLast(plot: uPlot): void {
  const last = (plot.data[0]?.length ?? 0) - 1
  if (plot.cursor.idx === null && last >= 0 && plot.legend.idx !== last) plot.setLegend({ idx: last })
}

/** Lines over a common x axis. New points update the lines without rendering the whole page. */
export function Chart({ label, xName, x, curves, isTime = false }: ChartProps) {
  const container = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(null)
  const scheme = useComputedColorScheme('light')
  const isLog = !isTime && isWide(curves)
  const names = curves.map(({ name }) => name).join('\n')

  useEffect(() => {
    const element = container.current
    if (!element) return
    const ink = scheme === 'dark' ? '#c9c9c9' : '#495057'
    const grid = { stroke: scheme === 'dark' ? '#3b3b3b' : '#e3e6e9', width: 1 }
    const font = `12px ${getComputedStyle(element).fontFamily}`
    const axis = { stroke: ink, grid, ticks: grid, font, labelFont: font }
    const made = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        scales: { x: { time: isTime }, ...(isLog && { y: { distr: 3 } }) },
        axes: [
          { ...axis, label: xName, labelSize: 20 },
          {
            ...axis,
            size: 64,
            values: (_plot, ticks) => ticks.map(figure),
            ...(isLog && { label: 'Logarithmic', labelSize: 24 }),
          },
        ],
        // While the pointer is outside the chart, the legend shows the last value of each line.
        hooks: { setLegend: [showLast] },
        series: [
          { label: xName },
          ...names.split('\n').map((name, at) => ({
            label: name,
            value: (_plot: uPlot, value: number | null) => figure(value) || '–',
            stroke: COLOURS[scheme][at % COLOURS[scheme].length] ?? ink,
            width: 2,
            spanGaps: !isTime,
            points: { size: 5 },
          })),
        ],
      },
      [[]],
      element,
    )
    plot.current = made
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }))
    observer.observe(element)
    return () => {
      observer.disconnect()
      made.destroy()
      plot.current = null
    }
  }, [scheme, names, xName, isLog, isTime])

  useEffect(() => {
    plot.current?.setData([x, ...curves.map(({ values }) => values)])
    if (plot.current) showLast(plot.current)
  }, [x, curves, scheme, names, isLog, isTime])

  return <div ref={container} className="chart" role="img" aria-label={label} data-points={x.length} />
}
