import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pythonProcessEnv } from '../../../../node-runtime/environments/python-env.ts'
import { pythonOf } from '../../servers/nodes/trainer.ts'

const ROOT = join(import.meta.dirname, '..', '..', '..', '..')

interface TableSummary {
  columns?: Record<string, string[]>
  /** The target column, sorted by time. */
  target?: string
  series?: number[]
  classes?: string[]
  /** The rows that have both text and a class, numbered from 1. */
  rows?: number[]
  error?: [code: string, message: string]
  warnings: string[]
}

export interface TableRequest {
  text: string
  /** Additional files of the dataset. */
  more?: string[]
  /** A column to sort by time; '' means the one that a forecast chooses. */
  target?: string
  /** The `target_column` of the request, if `target` is ''. */
  named?: string
  /** The time column. */
  time?: string
  /** If true, the probe fills gaps in the target, as forecasts do. */
  filled?: boolean
  /** A column of classes; the others are features. */
  label?: string
  format?: string
  /** If set, the probe reads texts and their classes instead of a table. */
  hyperparameters?: Record<string, string>
}

/** Reads files as the trainers do. */
export async function probeTables(files: TableRequest[]): Promise<TableSummary[]> {
  const probe = join(ROOT, 'test', 'support', 'builders', 'probes', 'table_probe.py')
  const child = spawn(await pythonOf('tabular'), [probe], {
    env: pythonProcessEnv({ PYTHONPATH: join(ROOT, 'node-runtime', 'trainers') }),
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  child.stdin.end(JSON.stringify(files))
  return JSON.parse(await text(child.stdout)) as TableSummary[]
}

/** Returns a CSV file with dates `d` and their positions as values `v`, with the rows in the given order. */
export const datesCsv = (
  dates: string[],
  order = dates.map((_, i) => i),
): { text: string; target: string } => ({
  text: ['d,v', ...order.map((i) => `${dates[i]},${i}`)].join('\n'),
  target: 'v',
})

/** Returns shuffled positions; the count must not be a multiple of 37. */
export const shufflePositions = (count: number): number[] =>
  Array.from({ length: count }, (_, i) => (i * 37) % count)
