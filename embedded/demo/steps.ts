import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { runProgram } from '../../platform/processes/run-program.ts'
import type { BuilderClient } from './client.ts'

const POLL_MS = 200

type Say = (line: string) => void

interface Epoch {
  epoch: number
  train_loss: number
  val_loss: number
}

interface Run {
  status: string
  error_message?: string | null
  metrics?: Record<string, unknown> | null
}

interface Endpoint {
  endpoint_id: string
  name: string
  example_input?: Record<string, unknown> | null
}

interface Inference {
  task_id: string
  status: string
  model_state?: string
  result?: unknown
  error?: string | null
}

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
export async function uploadTable(
  api: BuilderClient,
  csv: Buffer,
): Promise<{ dataset_id: string; num_samples: number }> {
  const fields = { name: 'diabetes', storage_format: 'csv' }
  return api.upload('/datasets/upload', { name: 'diabetes.csv', bytes: csv }, fields)
}

/** Starts a run and follows it to its end, printing each epoch. */
export async function train(
  api: BuilderClient,
  datasetId: string,
  say: Say,
): Promise<{ jobId: string; run: Run }> {
  const { job_id: jobId } = await api.post<{ job_id: string }>('/training/runs', {
    job_name: 'diabetes-progression',
    model_config_id: 'tabular-regression',
    dataset_id: datasetId,
    hyperparameters: { epochs: 40, learning_rate: 0.08 },
  })
  say(`job ${jobId}`)
  let told = 0
  let status = ''
  for (;;) {
    const current = await api.get<Run>(`/training/runs/${jobId}`)
    if (current.status !== status) say(`status ${(status = current.status)}`)
    told = await tellEpochs(api, jobId, told, say)
    if (status === 'completed') return { jobId, run: current }
    if (status === 'failed' || status === 'cancelled') {
      throw new Error(`the training run is ${status}: ${current.error_message ?? 'no reason given'}`)
    }
    await sleep(POLL_MS)
  }
}

async function tellEpochs(api: BuilderClient, jobId: string, told: number, say: Say): Promise<number> {
  const { metrics } = await api.get<{ metrics: { epochs?: Epoch[] } | null }>(
    `/training/runs/${jobId}/metrics`,
  )
  const epochs = metrics?.epochs ?? []
  for (const { epoch, train_loss: train, val_loss: validation } of epochs.slice(told)) {
    say(
      `epoch ${String(epoch).padStart(3)}   train loss ${number(train)}   validation loss ${number(validation)}`,
    )
  }
  return epochs.length
}

/** Makes an endpoint of a completed run. */
export async function register(api: BuilderClient, jobId: string): Promise<Required<Endpoint>> {
  const name = `diabetes-${Date.now().toString(36)}`
  const { endpoint_id: id } = await api.post<Endpoint>(`/training/runs/${jobId}/register-for-inference`, {
    name,
  })
  const endpoint = await api.get<Endpoint>(`/endpoints/${id}`)
  return { ...endpoint, example_input: endpoint.example_input ?? {} }
}

/** Sends one synchronous request; if it was queued, it is polled to its end. */
export async function infer(api: BuilderClient, endpoint: Required<Endpoint>): Promise<Inference> {
  const body = { input: endpoint.example_input, sync: true, sync_timeout_s: 60 }
  const answer = await api.post<Inference>(`/endpoints/${endpoint.endpoint_id}/infer`, body)
  return isOver(answer)
    ? succeeded(answer)
    : { ...(await poll(api, answer.task_id)), model_state: answer.model_state ?? '' }
}

/** Sends one asynchronous request and polls it to its end. */
export async function inferAsync(api: BuilderClient, endpoint: Required<Endpoint>): Promise<Inference> {
  const body = { input: endpoint.example_input }
  const { task_id: taskId } = await api.post<Inference>(
    `/endpoints/${endpoint.endpoint_id}/infer:async`,
    body,
  )
  return poll(api, taskId)
}

/** Returns the milliseconds of each of `count` requests, one after the other. */
export async function inferMany(
  api: BuilderClient,
  endpoint: Required<Endpoint>,
  count: number,
): Promise<number[]> {
  const times: number[] = []
  for (let i = 0; i < count; i++) {
    const started = performance.now()
    await infer(api, endpoint)
    times.push(performance.now() - started)
  }
  return times.toSorted((a, b) => a - b)
}

async function poll(api: BuilderClient, taskId: string): Promise<Inference> {
  for (;;) {
    const task = await api.get<Inference>(`/tasks/${taskId}`)
    if (isOver(task)) return succeeded(task)
    await sleep(50)
  }
}

const isOver = ({ status }: Inference) => status === 'succeeded' || status === 'failed'

function succeeded(task: Inference): Inference {
  if (task.status === 'failed')
    throw new Error(`task ${task.task_id} failed: ${task.error ?? 'no reason given'}`)
  return task
}

/** Formats a number to a fixed width. */
export function number(value: number): string {
  return value.toPrecision(5).padStart(8)
}
