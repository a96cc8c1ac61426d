import type { Static } from 'typebox'
import type { Endpoint, RegisterForInference } from '../../schemas/endpoint.ts'
import type {
  ArtifactList,
  CheckpointList,
  CreateTrainingRun,
  DownloadUrls,
  DownloadUrlsQuery,
  RepeatTrainingRun,
  TrainingRun,
  TrainingRunAccepted,
  TrainingRunCancelled,
  TrainingRunEvents,
  TrainingRunList,
  TrainingRunListQuery,
  TrainingRunLogs,
  TrainingRunMetrics,
  TrainingRunPaused,
} from '../../schemas/training-run.ts'
import type { Operations } from '../operations.ts'
import { runStream } from '../run-stream.ts'
import type { Transport } from '../transport.ts'
import { waitFor, type WaitOptions } from '../wait.ts'

type RunId = [run_id: string]

/** Selects log lines: the newest ones, those before `cursor`, or those after `after`. */
export interface LogQuery {
  limit?: number
  cursor?: string
  after?: string
}

/** Training runs, including merges. */
export function runs(on: Operations, transport: Transport) {
  const get = on.call<RunId, TrainingRun>({
    id: 'getTrainingRun',
    method: 'GET',
    path: '/training/runs/{run_id}',
  })
  return {
    create: on.send<[], CreateTrainingRun, TrainingRunAccepted>({
      id: 'createTrainingRun',
      method: 'POST',
      path: '/training/runs',
      idempotent: true,
    }),
    /** Starts a new run with this run's configuration and the given changes. */
    again: on.send<RunId, RepeatTrainingRun, TrainingRunAccepted>({
      id: 'repeatTrainingRun',
      method: 'POST',
      path: '/training/runs/{run_id}:again',
      idempotent: true,
    }),
    list: on.list<[], TrainingRunListQuery, TrainingRunList, 'runs'>({
      id: 'listTrainingRuns',
      method: 'GET',
      path: '/training/runs',
      items: 'runs',
    }),
    get,
    /** Waits until the run has ended, successfully or not, and returns it; check its `status`. */
    wait: (runId: string, options: WaitOptions<TrainingRun> = {}): Promise<TrainingRun> =>
      waitFor(
        () => get(runId, { signal: options.signal }),
        ({ status }) => status !== 'pending' && status !== 'running',
        options,
      ),
    /** Yields the run's events from its start or a given position, then new ones as they happen, until `done`. */
    stream: runStream(transport),
    cancel: on.call<RunId, TrainingRunCancelled>({
      id: 'cancelTrainingRun',
      method: 'POST',
      path: '/training/runs/{run_id}/cancel',
      repeatable: true,
    }),
    /** Ends the current attempt with a checkpoint; no new one starts until the run is resumed. */
    pause: on.call<RunId, TrainingRunPaused>({
      id: 'pauseTrainingRun',
      method: 'POST',
      path: '/training/runs/{run_id}:pause',
      repeatable: true,
    }),
    resume: on.call<RunId, TrainingRunPaused>({
      id: 'resumeTrainingRun',
      method: 'POST',
      path: '/training/runs/{run_id}:resume',
      repeatable: true,
    }),
    delete: on.call<RunId, void>({
      id: 'deleteTrainingRun',
      method: 'DELETE',
      path: '/training/runs/{run_id}',
    }),
    logs: on.query<RunId, LogQuery, TrainingRunLogs>({
      id: 'getTrainingRunLogs',
      method: 'GET',
      path: '/training/runs/{run_id}/logs',
    }),
    metrics: on.call<RunId, TrainingRunMetrics>({
      id: 'getTrainingRunMetrics',
      method: 'GET',
      path: '/training/runs/{run_id}/metrics',
    }),
    events: on.call<RunId, TrainingRunEvents>({
      id: 'getTrainingRunEvents',
      method: 'GET',
      path: '/training/runs/{run_id}/events',
    }),
    artifacts: on.call<RunId, ArtifactList>({
      id: 'listArtifacts',
      method: 'GET',
      path: '/training/runs/{run_id}/artifacts',
    }),
    checkpoints: on.call<RunId, CheckpointList>({
      id: 'listCheckpoints',
      method: 'GET',
      path: '/training/runs/{run_id}/checkpoints',
    }),
    downloadUrls: on.query<RunId, Static<typeof DownloadUrlsQuery>, DownloadUrls>({
      id: 'signDownloads',
      method: 'GET',
      path: '/training/runs/{run_id}/artifacts/download-urls',
    }),
    /** Creates an endpoint from a completed run. */
    register: on.send<RunId, RegisterForInference, Endpoint>({
      id: 'registerForInference',
      method: 'POST',
      path: '/training/runs/{run_id}/register-for-inference',
    }),
  }
}
