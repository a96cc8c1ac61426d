import { jobResumed } from './messages.ts'
import { QUEUES, WORKFLOW_ID } from './policy.ts'

interface DatasetRef {
  accountId: string
  datasetId: string
}

/** Shortens a name to fit into a summary, which Temporal limits to 200 bytes, without splitting a surrogate pair. */
const shortened = (name: string): string => name.slice(0, 40).toWellFormed()

/** The start intent of `datasetIngest`, enqueued in the transaction that accepts an upload. */
export const datasetIngestStart = ({
  accountId,
  datasetId,
  uploadId,
}: DatasetRef & { uploadId: string }) => ({
  workflowId: WORKFLOW_ID.dataset(datasetId, uploadId),
  workflow: 'datasetIngest',
  taskQueue: QUEUES.control,
  args: [{ uploadId }],
  options: {
    search: { HearthAccount: accountId, HearthKind: 'dataset-ingest' },
    summary: `Read the file uploaded to dataset ${datasetId}`,
    fairnessKey: accountId,
  },
})

/** The start intent of `datasetRemoval`. */
export const datasetRemovalStart = ({ accountId, datasetId }: DatasetRef) => ({
  workflowId: WORKFLOW_ID.datasetRemoval(datasetId),
  workflow: 'datasetRemoval',
  taskQueue: QUEUES.control,
  args: [{ datasetId }],
  options: {
    search: { HearthAccount: accountId, HearthKind: 'dataset-removal' },
    summary: `Remove the files of dataset ${datasetId}`,
    fairnessKey: accountId,
  },
})

/** The start intent of `jobRemoval`. */
export const jobRemovalStart = ({ accountId, jobId }: { accountId: string; jobId: string }) => ({
  workflowId: WORKFLOW_ID.jobRemoval(jobId),
  workflow: 'jobRemoval',
  taskQueue: QUEUES.control,
  args: [{ jobId }],
  options: {
    search: { HearthAccount: accountId, HearthKind: 'job-removal' },
    summary: `Remove the files of job ${jobId}`,
    fairnessKey: accountId,
  },
})

/** The start intent of `coldInference`. */
export const coldInferenceStart = ({
  taskId,
  accountId,
  modelKey,
}: {
  taskId: string
  accountId: string
  modelKey: string
}) => ({
  workflowId: WORKFLOW_ID.task(taskId),
  workflow: 'coldInference',
  taskQueue: QUEUES.control,
  args: [{ taskId }],
  options: {
    search: { HearthAccount: accountId, HearthKind: 'inference', HearthModel: modelKey },
    summary: `Inference with ${modelKey}`,
    fairnessKey: accountId,
  },
})

/** The start intent of `memorySnapshot`; each build of a namespace's memory has one. */
export const memorySnapshotStart = ({
  namespaceId,
  accountId,
  build,
  modelKey,
}: {
  namespaceId: string
  accountId: string
  build: number
  /** The embedding model whose vectors the snapshot waits for. */
  modelKey: string | undefined
}) => ({
  workflowId: WORKFLOW_ID.memorySnapshot(namespaceId, build),
  workflow: 'memorySnapshot',
  taskQueue: QUEUES.control,
  args: [{ namespaceId, build, ...(modelKey !== undefined && { modelKey }) }],
  options: {
    search: { HearthAccount: accountId, HearthKind: 'memory-snapshot' },
    summary: `Snapshot ${build} of memory ${namespaceId}`,
    fairnessKey: accountId,
  },
})

/** The start intent of `candidateTest`. */
export const candidateTestStart = (version: { id: string; account_id: string; model_key: string }) => ({
  workflowId: WORKFLOW_ID.candidateTest(version.id),
  workflow: 'candidateTest',
  taskQueue: QUEUES.control,
  args: [{ versionId: version.id }],
  options: {
    search: {
      HearthAccount: version.account_id,
      HearthKind: 'candidate-test',
      HearthModel: version.model_key,
    },
    summary: `Test the candidate ${version.model_key}`,
    fairnessKey: version.account_id,
  },
})

/** The start intent of `cohortRun`. */
export const cohortRunStart = (cohort: {
  cohortId: string
  accountId: string
  name: string
  stages: number
  nodes: number
  modelKey: string
}) => ({
  workflowId: WORKFLOW_ID.cohort(cohort.cohortId),
  workflow: 'cohortRun',
  taskQueue: QUEUES.control,
  args: [{ cohortId: cohort.cohortId }],
  options: {
    search: { HearthAccount: cohort.accountId, HearthKind: 'cohort', HearthModel: cohort.modelKey },
    summary: `${shortened(cohort.name)}: ${cohort.stages} stages on ${cohort.nodes} nodes`,
    fairnessKey: cohort.accountId,
  },
})

/** The start intent of `structuredEvaluation`. */
export const structuredEvaluationStart = ({ runId, accountId }: { runId: string; accountId: string }) => ({
  workflowId: WORKFLOW_ID.evaluation(runId),
  workflow: 'structuredEvaluation',
  taskQueue: QUEUES.control,
  args: [{ runId }],
  options: {
    search: { HearthAccount: accountId, HearthKind: 'evaluation' },
    summary: `Evaluate a map between two spaces, run ${runId}`,
    fairnessKey: accountId,
  },
})

/** The start intent of `modelLoad`. */
export const modelLoadStart = ({ modelKey, nodeId }: { modelKey: string; nodeId: string }) => ({
  workflowId: WORKFLOW_ID.load(modelKey, nodeId),
  workflow: 'modelLoad',
  taskQueue: QUEUES.control,
  args: [{ modelKey, nodeId }],
  options: {
    search: { HearthKind: 'model-load', HearthModel: modelKey, HearthNode: nodeId },
    summary: `Load ${modelKey} on node ${nodeId}`,
  },
})

interface JobStart {
  jobId: string
  accountId: string
  modelConfigId: string
  jobName: string
  priority: number
  /** The reason why no node can run the job at present. */
  waiting?: string | null
}

const jobInput = ({ jobId, waiting }: JobStart) => ({ jobId, ...(waiting && { waiting }) })

/** The start intent of `trainingRun`; `priority` comes from the run's operating mode. */
export const trainingRunStart = (job: JobStart) => ({
  workflowId: WORKFLOW_ID.job(job.jobId),
  workflow: 'trainingRun',
  taskQueue: QUEUES.control,
  args: [jobInput(job)],
  options: {
    search: { HearthAccount: job.accountId, HearthKind: 'training', HearthModel: job.modelConfigId },
    // Temporal limits the summary to 200 bytes.
    summary: `Train ${job.modelConfigId} as ${shortened(job.jobName)}`,
    priority: job.priority,
    fairnessKey: job.accountId,
  },
})

/** The start intent of a resumed run, whose workflow may still be about to end. */
export const trainingRunResume = (job: JobStart) => {
  const start = trainingRunStart(job)
  return { ...start, options: { ...start.options, signal: jobResumed.name } }
}

/** The start intent of `merge`. */
export const mergeStart = (job: JobStart) => ({
  workflowId: WORKFLOW_ID.job(job.jobId),
  workflow: 'merge',
  taskQueue: QUEUES.control,
  args: [jobInput(job)],
  options: {
    search: { HearthAccount: job.accountId, HearthKind: 'merge', HearthModel: job.modelConfigId },
    summary: `Merge models of ${job.modelConfigId} as ${shortened(job.jobName)}`,
    priority: job.priority,
    fairnessKey: job.accountId,
  },
})

/** The start intent of `webhookVerification`; each version of an endpoint's URL has one. */
export const webhookVerificationStart = ({
  accountId,
  endpointId,
  version,
}: {
  accountId: string
  endpointId: string
  version: number
}) => ({
  workflowId: WORKFLOW_ID.verification(endpointId, version),
  workflow: 'webhookVerification',
  taskQueue: QUEUES.webhooks,
  args: [{ endpointId, version }],
  options: {
    search: { HearthAccount: accountId, HearthKind: 'webhook-verification' },
    summary: `Verify webhook endpoint ${endpointId}, version ${version}`,
    fairnessKey: accountId,
  },
})

/** The start intent of `webhookDelivery`, for a delivery whose first attempt failed. */
export const webhookDeliveryStart = ({
  deliveryId,
  accountId,
}: {
  deliveryId: string
  accountId: string
}) => ({
  workflowId: WORKFLOW_ID.delivery(deliveryId),
  workflow: 'webhookDelivery',
  taskQueue: QUEUES.webhooks,
  args: [{ deliveryId }],
  options: {
    search: { HearthAccount: accountId, HearthKind: 'webhook-delivery' },
    summary: `Deliver webhook ${deliveryId}`,
    fairnessKey: accountId,
  },
})

/**
 * The start intent of `webhookDispatch`, which makes the first attempts of all deliveries; every worker ensures that it
 * runs.
 */
export const webhookDispatchStart = {
  workflowId: WORKFLOW_ID.dispatch,
  workflow: 'webhookDispatch',
  taskQueue: QUEUES.webhooks,
  args: [],
  options: {
    search: { HearthKind: 'webhook-dispatch' },
    summary: 'First attempts of all webhook deliveries',
  },
}

/** The start intent of the one kill switch; every worker and gateway ensures that it runs. */
export const killSwitchStart = {
  workflowId: WORKFLOW_ID.killSwitch,
  workflow: 'killSwitch',
  taskQueue: QUEUES.control,
  args: [],
  options: {
    search: { HearthKind: 'kill-switch' },
    summary: 'Kill switch: signal activate {reason, actor} or deactivate',
  },
}

/** The start intents of the housekeeping workflows; every worker ensures that they run. */
export const housekeepingStarts = [
  housekeepingStart('reconcile', 'Finishes or restarts work whose workflow is gone'),
  housekeepingStart('retention', 'Removes expired data'),
  {
    ...housekeepingStart(
      'cohorts',
      'Ends overdue cohort work; finishes or restarts cohorts without a workflow',
    ),
    workflow: 'cohortHousekeeping',
    args: [{}],
  },
]

function housekeepingStart(kind: string, summary: string) {
  return {
    workflowId: WORKFLOW_ID.housekeeping(kind),
    workflow: 'housekeeping',
    taskQueue: QUEUES.control,
    args: [{ kind }],
    options: { search: { HearthKind: kind }, summary },
  }
}
