import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FittedMap } from '../../schemas/cohorts/evaluator.ts'
import { putFile } from '../weights/transfer.ts'
import { EvaluationError } from './evaluation-error.ts'
import { RowFile } from './npy.ts'
import { type EvaluationTask, type EvaluationTools, Workbench } from './workbench.ts'

const BASE_MB = 200
/** The number of copies of the vectors in memory, as 64-bit floats, including the factors of the computation. */
const COPIES = 6

/** Returns the memory in MB that the computation needs. `columns` is the total width of the vectors of both sides. */
export function arithmeticMb({ work }: EvaluationTask, columns: number): number {
  return BASE_MB + Math.ceil(((work.fit_count + work.test_count) * columns * 8 * COPIES) / 2 ** 20)
}

/** Assumed until the files have been downloaded. */
export const USUAL_COLUMNS = 2_048

/** Fits the map between the vectors of both sides and uploads it. */
export async function fitMap(tools: EvaluationTools, task: EvaluationTask): Promise<FittedMap> {
  const { work, signal } = task
  if (!work.upload) throw new EvaluationError('work_incomplete', 'the work has no upload URL for the map')
  await using bench = await Workbench.open(tools, task, arithmeticMb(task, USUAL_COLUMNS))
  const source = await bench.fetch('source.npy', work.source_url)
  const target = await bench.fetch('target.npy', work.target_url)
  await bench.run('fit', { source, target })

  const path = join(bench.out, 'adapter.safetensors')
  const bytes = await readFile(path)
  await putFile(work.upload.url, path, { headers: work.upload.headers, signal })
  await using from = await RowFile.open(source)
  await using to = await RowFile.open(target)
  return {
    ...(await bench.read<Pick<FittedMap, 'method' | 'relation' | 'left_out_r2'>>('fit.json')),
    sha256: createHash('sha256').update(bytes).digest('hex'),
    size_bytes: bytes.length,
    input_dimensions: from.columns,
    output_dimensions: to.columns,
  }
}
