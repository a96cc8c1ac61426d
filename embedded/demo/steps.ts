import { performance } from 'node:perf_hooks'
import { type Hearth, HearthError } from '../../client/index.ts'
import { runProgram } from '../../platform/processes/run-program.ts'
import type { Endpoint } from '../../schemas/endpoint.ts'
import type { InferenceTask, InferResponse } from '../../schemas/inference-task.ts'
import type { EpochLoss, TrainingRun } from '../../schemas/training-run.ts'

const POLL_INTERVAL_MS = 50
const TOOL = 'query_table'

type PrintLine = (line: string) => void

/** An endpoint with an example input to call it with. */
export type ExampleEndpoint = Pick<Endpoint, 'endpoint_id' | 'name' | 'example_input'>

/** Returns the diabetes study (442 patients) that ships with scikit-learn, as CSV with its header line. */
export async function exportTable(python: string): Promise<Buffer> {
  const program = [
    'import csv, sys',
    'from sklearn.datasets import load_diabetes',
    'table = load_diabetes(scaled=False)',
    'rows = csv.writer(sys.stdout)',
    'rows.writerow([*table.feature_names, "target"])',
    'rows.writerows([*row, target] for row, target in zip(table.data.tolist(), table.target.tolist()))',
  ].join('\n')
  const { stdout } = await runProgram(python, ['-c', program], { encoding: 'buffer', maxBuffer: 16 << 20 })
  return stdout
}

/** Uploads the table. */
export const uploadTable = (h: Hearth, csv: Buffer): Promise<{ dataset_id: string; num_samples: number }> =>
  h.datasets.uploadForm({
    name: 'diabetes',
    storage_format: 'csv',
    file: new Blob([new Uint8Array(csv)]),
    filename: 'diabetes.csv',
  })

/** Starts a run and follows it until it ends, printing each epoch as it arrives. */
export async function train(
  h: Pick<Hearth, 'runs'>,
  datasetId: string,
  say: PrintLine,
): Promise<{ jobId: string; run: TrainingRun }> {
  const { job_id: jobId } = await h.runs.create({
    job_name: 'diabetes-progression',
    model_config_id: 'tabular-regression',
    dataset_id: datasetId,
    hyperparameters: { epochs: 40, learning_rate: 0.08 },
  })
  say(`job ${jobId}`)
  let status: TrainingRun['status'] | undefined
  for await (const { event, data } of h.runs.stream(jobId, { types: ['status', 'metric'] })) {
    if (event === 'metric') say(formatEpoch(data))
    if ((event === 'status' || event === 'done') && data.status !== status) {
      status = data.status
      say(`status ${status}`)
    }
    if (event !== 'done') continue
    if (data.status === 'completed') return { jobId, run: data }
    throw new Error(`the training run is ${data.status}: ${data.error_message ?? 'no reason given'}`)
  }
  throw new Error('the event stream closed before the training run ended')
}

const formatEpoch = ({ epoch, train_loss: train, val_loss: validation }: EpochLoss): string =>
  `epoch ${String(epoch).padStart(3)}   train loss ${loss(train)}   validation loss ${loss(validation)}`

const loss = (value: number | null): string => (value === null ? 'none' : number(value))

/** Creates an endpoint from a completed run. */
export async function register(h: Hearth, jobId: string): Promise<ExampleEndpoint> {
  const { endpoint_id } = await h.runs.register(jobId, { name: `diabetes-${Date.now().toString(36)}` })
  return h.endpoints.get(endpoint_id)
}

/** Sends one synchronous request; if it is queued, polls the task until it ends. */
export async function infer(h: Hearth, endpoint: ExampleEndpoint): Promise<InferResponse> {
  const answer = await h.endpoints.infer(endpoint.endpoint_id, {
    input: endpoint.example_input,
    sync: true,
    sync_timeout_s: 60,
  })
  if (answer.status === 'succeeded') return answer
  const { status, result } = await succeeded(h, answer.task_id)
  return { ...answer, status, ...(result && { result }) }
}

/** Sends one asynchronous request and polls the task until it ends. */
export async function inferAsync(h: Hearth, endpoint: ExampleEndpoint): Promise<InferenceTask> {
  const { task_id } = await h.endpoints.inferAsync(endpoint.endpoint_id, { input: endpoint.example_input })
  return succeeded(h, task_id)
}

/** Sends `count` requests one after the other and returns the milliseconds that each took. */
export async function inferMany(h: Hearth, endpoint: ExampleEndpoint, count: number): Promise<number[]> {
  const times: number[] = []
  for (let i = 0; i < count; i++) {
    const started = performance.now()
    await infer(h, endpoint)
    times.push(performance.now() - started)
  }
  return times.toSorted((a, b) => a - b)
}

async function succeeded(h: Hearth, taskId: string): Promise<InferenceTask> {
  const task = await h.tasks.wait(taskId, { intervalMs: POLL_INTERVAL_MS })
  if (task.status === 'failed') throw new Error(`task ${taskId} failed: ${task.error ?? 'no reason given'}`)
  return task
}

/** Formats a number to a fixed width. */
export function number(value: number): string {
  return value.toPrecision(5).padStart(8)
}

/** The rows that a query over a table returns, or why this machine cannot run tools. */
type QueryResult = { rows: Record<string, unknown>[] } | { refused: string }

/** Runs a query over a CSV file with the catalog tool `query_table`. */
export async function queryTable(h: Hearth, csv: Buffer, sql: string): Promise<QueryResult> {
  try {
    const file = new Blob([new Uint8Array(csv)], { type: 'text/csv' })
    const { input_url } = await h.endpoints.uploadInput(TOOL, { file, filename: 'diabetes.csv' })
    const example_input = { file_url: input_url, sql }
    const { result } = await infer(h, { endpoint_id: TOOL, name: TOOL, example_input })
    return { rows: (result as { rows: Record<string, unknown>[] }).rows }
  } catch (err) {
    if (err instanceof HearthError && err.code === 'no_capacity') return { refused: err.message }
    throw err
  }
}
