import type { ActivityOptions, LocalActivityOptions } from '@temporalio/workflow'
import { NODE_QUEUES } from '../../domain/placement/node-queues.ts'

/** Every task queue; those of nodes are named by warmth, hardware or node. */
export const QUEUES = {
  control: 'control',
  webhooks: 'webhooks',
  ...NODE_QUEUES,
} as const

/** Workflow ids derive from the row they serve. */
export const WORKFLOW_ID = {
  dataset: (datasetId: string, uploadId: string) => `dataset/${datasetId}/${uploadId}`,
  datasetRemoval: (datasetId: string) => `dataset/${datasetId}/removal`,
  job: (jobId: string) => `job/${jobId}`,
  jobRemoval: (jobId: string) => `job/${jobId}/removal`,
  task: (taskId: string) => `task/${taskId}`,
  candidateTest: (versionId: string) => `version/${versionId}/test`,
  load: (modelKey: string, nodeId: string) => `load/${modelKey}/${nodeId}`,
  killSwitch: 'killswitch',
  verification: (endpointId: string, version: number) => `verify/${endpointId}/${version}`,
  delivery: (deliveryId: string) => `delivery/${deliveryId}`,
  dispatch: 'dispatch/first-attempts',
  housekeeping: (kind: string) => `housekeeping/${kind}`,
} as const

const SUBJECT = /^(task|job)\/([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})$/

/** The task or job that a workflow serves, as its id tells; undefined for workflows of other things. */
export function subjectOf(workflowId: string): { kind: 'task' | 'job'; subjectId: string } | undefined {
  const [, kind, subjectId] = SUBJECT.exec(workflowId) ?? []
  if (subjectId === undefined) return undefined
  return { kind: kind === 'job' ? 'job' : 'task', subjectId }
}

/**
 * For work that heartbeats and that the node ends by itself when it stands still: a load has no end of its own while it
 * makes progress.
 */
const WHILE_ALIVE = '90 days'

/**
 * Every activity runs under one of these. A new row needs a reason; a workflow that wants different numbers needs a
 * new row.
 */
export const POLICY = {
  /**
   * One file parsed from end to end; it heartbeats while it reads. Database and object store may be away for any time;
   * a file that breaks its reader again and again is given up by the activity.
   */
  ingest: {
    startToCloseTimeout: '2 hours',
    heartbeatTimeout: '10s',
    retry: { maximumInterval: '15s' },
  },
  /** Work on a node: a heartbeat is a sign of life, not of progress; the workflow counts attempts without progress. */
  train: {
    startToCloseTimeout: '7 days',
    heartbeatTimeout: '10s',
    retry: { maximumAttempts: 1 },
  },
  /** A merge is arithmetic and transfers, without checkpoints: hours at most. */
  merge: {
    startToCloseTimeout: '12 hours',
    heartbeatTimeout: '10s',
    retry: { maximumAttempts: 1 },
  },
  /** One inference on any node that has the model loaded, or its weights on disk; not taken in time means: place again. */
  inferShared: {
    scheduleToStartTimeout: '2s',
    startToCloseTimeout: WHILE_ALIVE,
    heartbeatTimeout: '10s',
    retry: { maximumAttempts: 1 },
  },
  /** One inference on the node that placement picked, which may first have to load the model. */
  inferPlaced: {
    scheduleToStartTimeout: '10s',
    startToCloseTimeout: WHILE_ALIVE,
    heartbeatTimeout: '10s',
    retry: { maximumAttempts: 1 },
  },
  /** Loading a model; the node tells progress and gives up by itself when there is none. */
  load: {
    scheduleToStartTimeout: '30s',
    startToCloseTimeout: WHILE_ALIVE,
    heartbeatTimeout: '10s',
    retry: { maximumAttempts: 3 },
  },
  /** First attempts of deliveries, minutes at a time; a worker that dies is noticed soon. */
  dispatch: {
    startToCloseTimeout: '15 minutes',
    heartbeatTimeout: '5s',
    retry: { initialInterval: '500ms', maximumInterval: '5s' },
    // Never behind the later attempts that wait for a worker.
    priority: { priorityKey: 1 },
  },
  /** One request to a stranger, who has 15 s to answer. */
  deliver: {
    startToCloseTimeout: '1 minute',
    retry: { maximumInterval: '15s' },
  },
  /** What was deleted must go from the object store, however long that is away. */
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

/** How long a workflow waits before it tries the same again. */
export const PAUSE = {
  /** After an attempt at a job that brought nothing new. */
  afterFailure: '2s',
  /**
   * Before a task that no node has taken is placed again: the first wait and the longest, each twice the one before. The
   * longest of tasks that are woken when there is room grows with their number, so that all of them together look for a
   * node as often as a few do.
   */
  forCapacity: { firstMs: 1_000, longestMs: 15_000, eachMs: 250, mostMs: 900_000 },
  /** Before another look at a delivery whose destination is being verified: the first wait and the longest. */
  forDestination: { firstMs: 60_000, longestMs: 900_000 },
  /** Past the time that a sender has to record how an attempt ended. */
  forSender: 6_000,
  /** While a destination has as many attempts under way as it may: the first wait and the longest. */
  forRoom: { firstMs: 5_000, longestMs: 600_000 },
  /** When a destination is challenged, from the opening of its window of 15 minutes. */
  challenges: [0, 30_000, 120_000, 600_000],
  /** Between two passes. */
  housekeeping: { reconcile: '15s', retention: '5m' },
  /** After an attempt that no gateway let begin. */
  afterRefusal: '5s',
} as const

/** Short database steps of the control plane run in the workflow's own worker. */
export const LOCAL = {
  record: {
    startToCloseTimeout: '10s',
    localRetryThreshold: '1 minute',
    retry: { maximumInterval: '10s' },
  },
  /** A step of housekeeping that comes round again soon: better given up than holding up the others. */
  sweep: {
    startToCloseTimeout: '15s',
    localRetryThreshold: '1 minute',
    retry: { maximumAttempts: 3, maximumInterval: '2s' },
  },
} as const satisfies Record<string, LocalActivityOptions>
