import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { canonicalJson } from '../../domain/canonical-json.ts'
import { valueAt } from '../../domain/cohorts/pointer.ts'
import { withVector } from '../../domain/cohorts/vector-input.ts'
import type { Verdict } from '../../schemas/cohorts/evaluator.ts'
import type { EvaluationWork } from '../../schemas/evaluation-work.ts'
import { callModel } from './call-model.ts'
import { EvaluationError } from './evaluation-error.ts'
import { arithmeticMb, USUAL_COLUMNS } from './fit-map.ts'
import { RowFile } from './npy.ts'
import { type EvaluationTask, type EvaluationTools, Workbench } from './workbench.ts'

/** The number of concurrent requests to a consumer. */
const AT_ONCE = 8

type Consumer = NonNullable<EvaluationWork['consumer']>

/** Judges a run's map on held-out texts: by the consumer's answers if there is one, by the vectors alone otherwise. */
export async function judgeMap(tools: EvaluationTools, task: EvaluationTask): Promise<Verdict> {
  const { work } = task
  await using bench = await Workbench.open(tools, task, arithmeticMb(task, USUAL_COLUMNS))
  const job = {
    source: await bench.fetch('source.npy', work.source_url),
    target: await bench.fetch('target.npy', work.target_url),
    adapter: await bench.fetch('adapter.safetensors', work.adapter_url),
    fit: work.fit,
  }
  const answers = work.consumer && { answers: await callConsumer(tools, task, bench, work.consumer, job) }
  await bench.run('judge', { ...job, ...answers })
  const verdict = await bench.read<Verdict & Record<string, unknown>>('verdict.json')
  const { estimate, score, interval, null_model, diagnostics, sample_count, fit_count, reasons } = verdict
  return { estimate, score, interval, null_model, diagnostics, sample_count, fit_count, reasons }
}

/** Queries the consumer with native, mapped and broken vectors. Returns the file of its answers, as numbers. */
async function callConsumer(
  tools: EvaluationTools,
  task: EvaluationTask,
  bench: Workbench,
  consumer: Consumer,
  job: object,
): Promise<string> {
  await bench.run('map', job)
  const codes = new Map<string, number>()
  const about = async (name: string): Promise<number[]> => {
    await using file = await RowFile.open(join(bench.out, `${name}.npy`))
    return await answersOf(file, async (vector) => {
      const answer = canonicalJson(await callChat(tools, task, consumer, vector))
      if (!codes.has(answer)) codes.set(answer, codes.size)
      return codes.get(answer) ?? -1
    })
  }
  const native = await about('native')
  const mapped = await about('mapped')
  const broken = await about('null')
  const rows = await bench.read<number[][]>('null-rows.json')
  const path = join(bench.dir, 'answers.json')
  let at = 0
  const body = {
    native,
    mapped,
    null: rows.map(({ length }) => broken.slice(at, (at += length))),
    null_rows: rows,
  }
  await writeFile(path, JSON.stringify(body))
  return path
}

async function callChat(
  tools: EvaluationTools,
  { signal }: EvaluationTask,
  { model_key: modelKey, task_type: taskType, input, input_path, answer_path }: Consumer,
  vector: readonly number[],
): Promise<unknown> {
  const body = withVector(input, input_path, vector)
  if (body === undefined) {
    throw new EvaluationError('consumer_refused', 'the consumer expects a different number of columns', {
      isFinal: true,
    })
  }
  const answer = valueAt(await callModel(tools, { modelKey, taskType, signal }, body), answer_path)
  if (answer !== undefined) return answer
  throw new EvaluationError('consumer_refused', "the consumer's answer has no value at the given path", {
    isFinal: true,
  })
}

/** Returns the answers for all rows, in order, with up to `AT_ONCE` requests at a time. */
async function answersOf(file: RowFile, answer: (vector: number[]) => Promise<number>): Promise<number[]> {
  const found: number[] = Array.from({ length: file.rows }, () => -1)
  let next = 0
  const worker = async () => {
    while (next < file.rows) {
      const row = next++
      found[row] = await answer(await file.row(row)).catch((err: unknown) => {
        // Stop the other workers.
        next = file.rows
        throw err
      })
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  return found
}
