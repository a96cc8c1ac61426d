import type { Static } from 'typebox'
import type { TrainingRun, TrainingRunList, TrainingRunLogs } from '../../../schemas/training-run.ts'
import { getTrainingRunLogs } from '../../routes/builder/training-runs/get-training-run-logs.ts'
import { getTrainingRunMetrics } from '../../routes/builder/training-runs/get-training-run-metrics.ts'
import { listTrainingRuns } from '../../routes/builder/training-runs/list-training-runs.ts'
import { operate } from '../operate.ts'
import type { AccountRequestContext } from '../tool.ts'
import { idIn, type ResourceKind } from './kind.ts'

const RECENT = 10
const LINES = 1_000

const LOG = 'hearth://runs/{run_id}/log'
const METRICS = 'hearth://runs/{run_id}/metrics'

/** The newest log lines of a training run or merge. */
export const runLogs: ResourceKind = {
  template: {
    uriTemplate: LOG,
    name: 'run-log',
    title: 'Log of a training run',
    description: `The newest ${LINES} lines of the log of a training run or merge`,
    mimeType: 'text/plain',
  },
  recent: async (on) =>
    (await recentRuns(on)).map(({ run_id, job_name }) => ({
      uri: LOG.replace('{run_id}', run_id),
      name: `log-${run_id}`,
      title: `Log of ${job_name}`,
      description: 'The newest lines of its log',
      mimeType: 'text/plain',
    })),
  complete,
  async read(uri, on) {
    const run_id = idIn(uri, LOG)
    if (run_id === undefined) return undefined
    const inputs = { params: { run_id }, query: { limit: LINES } }
    const { logs } = await operate<TrainingRunLogs>(getTrainingRunLogs, on, inputs)
    const text = logs.map(({ timestamp, message }) => `${timestamp} ${message}`).join('\n')
    return [{ uri, mimeType: 'text/plain', text }]
  },
}

/** The metrics of a training run, live while it is running. */
export const runMetrics: ResourceKind = {
  template: {
    uriTemplate: METRICS,
    name: 'run-metrics',
    title: 'Metrics of a training run',
    description: 'The losses of a run by epoch and the final metrics of its model',
    mimeType: 'application/json',
  },
  recent: async (on) =>
    (await recentRuns(on)).map(({ run_id, job_name }) => ({
      uri: METRICS.replace('{run_id}', run_id),
      name: `metrics-${run_id}`,
      title: `Metrics of ${job_name}`,
      description: 'Its losses by epoch and its final metrics',
      mimeType: 'application/json',
    })),
  complete,
  async read(uri, on) {
    const run_id = idIn(uri, METRICS)
    if (run_id === undefined) return undefined
    const metrics = await operate(getTrainingRunMetrics, on, { params: { run_id } })
    return [{ uri, mimeType: 'application/json', text: JSON.stringify(metrics) }]
  },
}

async function complete(_argument: string, on: AccountRequestContext): Promise<string[]> {
  return (await recentRuns(on)).map(({ run_id }) => run_id)
}

async function recentRuns(on: AccountRequestContext): Promise<TrainingRun[]> {
  const inputs = { query: { limit: RECENT } }
  return (await operate<Static<typeof TrainingRunList>>(listTrainingRuns, on, inputs)).runs
}
