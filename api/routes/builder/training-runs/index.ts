import { cancelTrainingRun } from './cancel-training-run.ts'
import { createTrainingRun } from './create-training-run.ts'
import { deleteTrainingRun } from './delete-training-run.ts'
import { getTrainingRunEvents } from './get-training-run-events.ts'
import { getTrainingRunLogs } from './get-training-run-logs.ts'
import { getTrainingRunMetrics } from './get-training-run-metrics.ts'
import { getTrainingRun } from './get-training-run.ts'
import { listArtifacts } from './list-artifacts.ts'
import { listCheckpoints } from './list-checkpoints.ts'
import { listTrainingRuns } from './list-training-runs.ts'
import { pauseTrainingRun } from './pause-training-run.ts'
import { repeatTrainingRun } from './repeat-training-run.ts'
import { resumeTrainingRun } from './resume-training-run.ts'
import { signDownloads } from './sign-downloads.ts'
import { streamTrainingRun } from './stream-training-run.ts'

export const trainingRuns = [
  createTrainingRun,
  repeatTrainingRun,
  listTrainingRuns,
  getTrainingRun,
  deleteTrainingRun,
  getTrainingRunLogs,
  getTrainingRunMetrics,
  getTrainingRunEvents,
  streamTrainingRun,
  cancelTrainingRun,
  pauseTrainingRun,
  resumeTrainingRun,
  listArtifacts,
  listCheckpoints,
  signDownloads,
]
