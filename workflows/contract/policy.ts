import type { ActivityOptions, LocalActivityOptions } from '@temporalio/workflow'
import { NODE_QUEUES } from '../../domain/placement/node-queues.ts'

/** Every task queue. Node queue names contain a model's warmth, a hardware type or a node id. */
export const QUEUES = {
  control: 'control',
  webhooks: 'webhooks',
  ...NODE_QUEUES,
} as const

/** A workflow's id derives from the row that it serves. */
export const WORKFLOW_ID = {
  dataset: (datasetId: string, uploadId: string) => `dataset/${datasetId}/${uploadId}`,
  datasetRemoval: (datasetId: string) => `dataset/${datasetId}/removal`,
  job: (jobId: string) => `job/${jobId}`,
  jobRemoval: (jobId: string) => `job/${jobId}/removal`,
  task: (taskId: string) => `task/${taskId}`,
  cohort: (cohortId: string) => `cohort/${cohortId}`,
  candidateTest: (versionId: string) => `version/${versionId}/test`,
  evaluation: (runId: string) => `evaluation/${runId}`,
  memorySnapshot: (namespaceId: string, build: number) => `memory/${namespaceId}/${build}`,
  load: (modelKey: string, nodeId: string) => `load/${modelKey}/${nodeId}`,
  killSwitch: 'killswitch',
  verification: (endpointId: string, version: number) => `verify/${endpointId}/${version}`,
  delivery: (deliveryId: string) => `delivery/${deliveryId}`,
  dispatch: 'dispatch/first-attempts',
  housekeeping: (kind: string) => `housekeeping/${kind}`,
} as const

const SUBJECT = /^(task|job)\/([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})$/

/** Returns the task or job that a workflow serves, parsed from its id; undefined for any other workflow. */
export function subjectOf(workflowId: string): { kind: 'task' | 'job'; subjectId: string } | undefined {
  const [, kind, subjectId] = SUBJECT.exec(workflowId) ?? []
  if (subjectId === undefined) return undefined
  return { kind: kind === 'job' ? 'job' : 'task', subjectId }
}

/**
 * For work that sends heartbeats. The node aborts it if it stalls, so a load that makes progress needs no time limit.
 */
const WHILE_ALIVE = '90 days'

/**
 * Every activity runs under one of these policies. A workflow that needs different values needs a new entry, and
 * each entry needs a reason.
 */
export const POLICY = {
  /**
   * Parses one whole file, with heartbeats. The database and the object store may be unavailable for any length of
   * time; the activity refuses a file that crashes its reader repeatedly.
   */
  ingest: {
    startToCloseTimeout: '2 hours',
    heartbeatTimeout: '10s',
    retry: { maximumInterval: '15s' },
  },
  /**
   * Work on a node. A heartbeat shows that the node is alive, not that the run progresses; the workflow counts
   * attempts without progress.
   */
  train: {
    startToCloseTimeout: '7 days',
    heartbeatTimeout: '10s',
    retry: { maximumAttempts: 1 },
  },
  /** A merge consists of arithmetic and transfers and has no checkpoints; it takes hours at most. */
  merge: {
    startToCloseTimeout: '12 hours',
    heartbeatTimeout: '10s',
    retry: { maximumAttempts: 1 },
  },
  /**
   * One inference on any node with the model loaded or cached. If no node accepts it in time, the task is placed again.
   */
  inferShared: {
    scheduleToStartTimeout: '2s',
    startToCloseTimeout: WHILE_ALIVE,
    heartbeatTimeout: '10s',
    retry: { maximumAttempts: 1 },
  },
  /** One inference on the chosen node, which may have to load the model first. */
  inferPlaced: {
    scheduleToStartTimeout: '10s',
    startToCloseTimeout: WHILE_ALIVE,
    heartbeatTimeout: '10s',
    retry: { maximumAttempts: 1 },
  },
  /**
   * One step of a structured run on the chosen node: running up to 100,000 texts through a model, or arithmetic. The
   * workflow places it again when it fails.
   */
  evaluate: {
    scheduleToStartTimeout: '30s',
    startToCloseTimeout: '12 hours',
    heartbeatTimeout: '10s',
    retry: { maximumAttempts: 1 },
  },
  /** One load of a model. The node reports progress, and aborts the load when there is no progress. */
  load: {
    scheduleToStartTimeout: '30s',
    startToCloseTimeout: WHILE_ALIVE,
    heartbeatTimeout: '10s',
    retry: { maximumAttempts: 3 },
  },
  /** First attempts of deliveries, for minutes at a time; the short heartbeat timeout detects a dead worker quickly. */
  dispatch: {
    startToCloseTimeout: '15 minutes',
    heartbeatTimeout: '5s',
    retry: { initialInterval: '500ms', maximumInterval: '5s' },
    // The priority puts this activity ahead of later attempts that wait for a worker.
    priority: { priorityKey: 1 },
  },
  /** One request to a receiver, which has 15 s to respond. */
  deliver: {
    startToCloseTimeout: '1 minute',
    retry: { maximumInterval: '15s' },
  },
  /** Deleted files must be removed from the object store, no matter how long it is unavailable. */
  remove: {
    startToCloseTimeout: '5 minutes',
    retry: { maximumInterval: '1 minute' },
  },
  /** Housekeeping over whole tables, in bounded steps. */
  maintain: {
    startToCloseTimeout: '5 minutes',
    retry: { maximumInterval: '1 minute', maximumAttempts: 5 },
  },
} as const satisfies Record<string, ActivityOptions>

/** How long workflows wait before a retry. */
export const PAUSE = {
  /** After a job attempt without progress. */
  afterFailure: '2s',
  /**
   * Before a task without a node is placed again: exponential back-off from the first pause to the longest. For tasks
   * that are woken when a node has room, the maximum pause grows with the number of waiting tasks, so that many tasks
   * cause no more placements than a few.
   */
  forCapacity: { firstMs: 1_000, longestMs: 15_000, eachMs: 250, mostMs: 900_000 },
  /** Before a delivery checks again whether its endpoint is verified: the first pause and the longest. */
  forDestination: { firstMs: 60_000, longestMs: 900_000 },
  /** Slightly longer than a sender may take to record the outcome of an attempt. */
  forSender: 6_000,
  /** Back-off between node lookups for the waiting stages of a cohort. */
  forNode: { firstMs: 1_000, longestMs: 30_000 },
  /** Exponential back-off before retrying a stage call that no node accepted in time. */
  forSlot: { firstMs: 1_000, longestMs: 600_000 },
  /** Back-off while an endpoint has too many attempts in flight. */
  forRoom: { firstMs: 5_000, longestMs: 600_000 },
  /**
   * `gatherMs`: the delay before a snapshot freezes its entries, so that entries written together end up in the same
   * snapshot. `firstMs` and `longestMs`: back-off between checks of the vectors that it waits for. `withoutProgressMs`:
   * how long it waits without a new vector.
   */
  forMemory: { gatherMs: 1_000, firstMs: 200, longestMs: 5_000, withoutProgressMs: 60_000 },
  /** When challenges are sent within the 15-minute window. */
  challenges: [0, 30_000, 120_000, 600_000],
  /** Between two housekeeping passes. */
  housekeeping: { reconcile: '15s', retention: '5m', cohorts: '15s' },
  /** After an attempt whose claim a gateway refused. */
  afterRefusal: '5s',
} as const

/**
 * The number of events after which a cohort continues as new even with work in flight. The server ends an execution at
 * 51,200 events, and work in flight adds at most a few hundred before the execution continues as new. A stage call adds
 * about 12 events, and a node lookup adds 6. A day's lookups (17,300) and every attempt of 64 stages with retries
 * and fallbacks (19,200) together stay below the limit.
 */
export const MAX_HISTORY = 40_000

/** Short database steps of the control plane, which run in the workflow's own worker. */
export const LOCAL = {
  record: {
    startToCloseTimeout: '10s',
    localRetryThreshold: '1 minute',
    retry: { maximumInterval: '10s' },
  },
  /** A housekeeping step. The next pass repeats it, so it should fail rather than delay the others. */
  sweep: {
    startToCloseTimeout: '15s',
    localRetryThreshold: '1 minute',
    retry: { maximumAttempts: 3, maximumInterval: '2s' },
  },
} as const satisfies Record<string, LocalActivityOptions>
