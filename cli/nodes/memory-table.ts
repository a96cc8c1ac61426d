import type { NodeMemory } from '../../schemas/nodes/node-memory.ts'
import { table } from '../print.ts'

const BLOCKS = '▁▂▃▄▅▆▇█'
const GAP = '·'
const MAX_WIDTH = 60

/** Formats a memory history: the last average and the peak of each process, and a chart of its peaks. */
export function memoryTable({ window, step_s, node, processes, left_out }: NodeMemory): string {
  const [first, last] = [node[0], node.at(-1)]
  if (!first || !last) return `The node has reported no memory in the last ${window}.`
  const measure = node.some(({ vram_max_mb }) => vram_max_mb !== undefined) ? 'vram_max_mb' : 'ram_max_mb'
  const steps = (Date.parse(last.at) - Date.parse(first.at)) / (1_000 * step_s) + 1
  const rowOf = (name: string, points: NodeMemory['processes'][number]['points']) => {
    const values = Array.from<number | undefined>({ length: steps })
    for (const point of points) {
      const step = (Date.parse(point.at) - Date.parse(first.at)) / (1_000 * step_s)
      values[step] = point[measure]
    }
    const newest = points.at(-1)
    return [
      name,
      newest?.ram_avg_mb,
      peakOf(points.map(({ ram_max_mb }) => ram_max_mb)),
      newest?.vram_avg_mb,
      peakOf(points.map(({ vram_max_mb }) => vram_max_mb)),
      sparkline(values),
    ]
  }
  const rows = [
    rowOf('all processes', node),
    ...processes.map(({ model_key, run_id, name, points }) =>
      rowOf(model_key ?? `run ${run_id}${name === null ? '' : ` (${name})`}`, points),
    ),
  ]
  const chart = measure === 'vram_max_mb' ? 'VRAM OVER TIME' : 'RAM OVER TIME'
  return [
    `Models and runs reserve ${last.reserved_max_mb} of ${last.total_mb} MB. Memory over the last ${window}:`,
    table(['PROCESS', 'LAST RAM MB', 'PEAK', 'LAST VRAM MB', 'PEAK', chart], rows),
    ...(left_out > 0 ? [`${left_out} smaller processes are not shown.`] : []),
  ].join('\n\n')
}

function peakOf(values: readonly (number | undefined)[]): number | undefined {
  const measured = values.filter((value) => value !== undefined)
  return measured.length > 0 ? Math.max(...measured) : undefined
}

/**
 * Draws values as blocks, scaled to the largest value. Missing values are dots. If there are more values than fit, each
 * block shows the largest of several.
 */
function sparkline(values: readonly (number | undefined)[]): string {
  const each = Math.ceil(values.length / MAX_WIDTH)
  const columns = Array.from({ length: Math.ceil(values.length / each) }, (_, column) =>
    values.slice(column * each, (column + 1) * each).filter((value) => value !== undefined),
  )
  const most = Math.max(1, ...columns.flat())
  return columns
    .map((column) =>
      column.length === 0 ? GAP : BLOCKS[Math.round((Math.max(...column) / most) * (BLOCKS.length - 1))],
    )
    .join('')
}
