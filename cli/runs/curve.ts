import { measure } from '../amounts.ts'

/** A metric over the epochs or steps of a run. */
export interface Series {
  name: string
  points: readonly (readonly [step: number, value: number])[]
}

interface Area {
  width: number
  height: number
}

/** The marks of the first, second, ... metric; the first is drawn over the others. */
const MARKS = ['*', 'o', '+', 'x']
const MARGIN = 9

/**
 * Plots metrics as text in one chart, with each metric's mark and last value below. Returns nothing if there are no
 * points.
 */
export function curve(series: readonly Series[], { width, height }: Area): string[] {
  const drawn = series.filter(({ points }) => points.length > 0).slice(0, MARKS.length)
  const all = drawn.flatMap(({ points }) => points)
  if (all.length === 0) return []
  const steps = rangeOf(all.map(([step]) => step))
  const values = rangeOf(all.map(([, value]) => value))
  const scale = isWide(values) ? logarithmic(values) : values
  const columns = Math.max(10, width - MARGIN - 2)
  const grid = Array.from({ length: height }, () => Array.from({ length: columns }, () => ' '))
  for (const [i, { points }] of [...drawn.entries()].toReversed()) {
    for (const [step, value] of points) {
      const row = grid[Math.round((1 - scale.share(value)) * (height - 1))]
      if (row) row[Math.round(steps.share(step) * (columns - 1))] = MARKS[i] ?? ''
    }
  }
  const lines = grid.map((row, i) => {
    const label = i === 0 ? measure(values.most) : i === height - 1 ? measure(values.least) : ''
    return `${label.slice(0, MARGIN).padStart(MARGIN)} |${row.join('').trimEnd()}`
  })
  const axis = `${' '.repeat(MARGIN + 2)}${String(steps.least).padEnd(columns - String(steps.most).length)}${steps.most}`
  const legend = drawn.map(({ name, points }, i) => `${MARKS[i]} ${name} ${measure(points.at(-1)?.[1] ?? 0)}`)
  const note = scale === values ? [] : ['(logarithmic)']
  return [...lines, axis, `${' '.repeat(MARGIN + 2)}${[...legend, ...note].join('   ')}`]
}

/** Above this ratio the axis is logarithmic; a linear curve would be flat after the first steps. */
const LOGARITHMIC_RATIO = 100

const isWide = ({ least, most }: Range): boolean => least > 0 && most / least >= LOGARITHMIC_RATIO

function logarithmic({ least, most }: Range): Range {
  const logs = rangeOf([Math.log(least), Math.log(most)])
  return { least, most, share: (value) => logs.share(Math.log(value)) }
}

interface Range {
  least: number
  most: number
  /** Returns the position of a value in the range, from 0 to 1. */
  share: (value: number) => number
}

function rangeOf(numbers: readonly number[]): Range {
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)]
  return { least, most, share: (value: number) => (most === least ? 0 : (value - least) / (most - least)) }
}
