import type { NodeMemory } from '../types.ts'
import type { Curve } from './runs/curves.ts'

/** The chart has eight colours, and one line is for all processes together. */
const MAX_PROCESSES = 7
const MB_PER_GB = 1_000

export type MemoryMeasure = 'ram' | 'vram'

/** Returns the peaks of a node and its largest processes in GB as lines. Steps without a report become gaps. */
export function memoryCurves(
  { node, processes, step_s }: Pick<NodeMemory, 'node' | 'processes' | 'step_s'>,
  measure: MemoryMeasure,
): { x: number[]; curves: Curve[] } {
  const [first, last] = [node[0], node.at(-1)]
  if (!first || !last) return { x: [], curves: [] }
  const start = secondsOf(first.at)
  const x = Array.from(
    { length: (secondsOf(last.at) - start) / step_s + 1 },
    (_, step) => start + step * step_s,
  )
  const valuesOf = (points: NodeMemory['processes'][number]['points']) => {
    const peaks = new Map(points.map((point) => [secondsOf(point.at), point[`${measure}_max_mb`]]))
    return x.map((at) => {
      const mb = peaks.get(at)
      return mb === undefined ? null : mb / MB_PER_GB
    })
  }
  const lines = [
    { name: 'All processes', values: valuesOf(node) },
    ...processes.slice(0, MAX_PROCESSES).map(({ model_key, run_id, name, points }) => ({
      name: model_key ?? `Run ${name ?? run_id}`,
      values: valuesOf(points),
    })),
  ]
  return { x, curves: lines.filter(({ values }) => values.some((value) => value !== null)) }
}

const secondsOf = (at: string): number => Date.parse(at) / 1_000
