import type {
  Cohort,
  CohortEdge,
  CohortStage,
  Dataset,
  Delivery,
  DeliveryDetail,
  Endpoint,
  ModelVersion,
  NodeDetail,
  Run,
  Task,
  WebhookEndpoint,
} from './types.ts'

/** The tone and label of a state. Waiting and failed states also say what happens next, or what to do. */
export type StateWords =
  | readonly [tone: 'good' | 'busy' | 'off', words: string]
  | readonly [tone: 'wait' | 'bad', words: string, then: string]

type StateWordsOf<S extends string> = Readonly<Record<S, StateWords>>

const RUN: StateWordsOf<Run['status']> = {
  pending: ['wait', 'Waiting', 'It starts as soon as a suitable node has room.'],
  running: ['busy', 'Running'],
  completed: ['good', 'Completed'],
  failed: [
    'bad',
    'Failed',
    'Fix the problem that the reason and the end of the log describe, then run it again.',
  ],
  cancelled: ['off', 'Cancelled'],
}

/** A paused run keeps its status, so the pause has its own entry. */
const PAUSE: StateWordsOf<'paused'> = {
  paused: ['wait', 'Paused', 'It continues from its last checkpoint once it is resumed.'],
}

const TASK: StateWordsOf<Task['status']> = {
  queued: ['wait', 'Queued', 'It starts as soon as a node that can load the model has room.'],
  assigned: ['busy', 'Assigned to a node'],
  claimed: ['busy', 'Claimed by a node'],
  preparing: ['busy', 'Preparing'],
  downloading_model: ['busy', 'Downloading the model'],
  loading_model: ['busy', 'Loading the model'],
  running: ['busy', 'Running'],
  generating: ['busy', 'Generating'],
  uploading_output: ['busy', 'Uploading the output'],
  succeeded: ['good', 'Succeeded'],
  failed: [
    'bad',
    'Failed',
    'Its price was refunded. If the reason names the input, fix the input, then send the request again.',
  ],
}

const DATASET: StateWordsOf<Dataset['status'] | 'reading'> = {
  pending: ['wait', 'Waiting for a file', 'Upload its file, or delete the dataset.'],
  reading: ['wait', 'Reading the file', 'You can train on it once its file has been read.'],
  ready: ['good', 'Ready'],
  failed: ['bad', 'Failed', 'Fix the file, then upload it again.'],
}

const ENDPOINT: StateWordsOf<Endpoint['status']> = {
  active: ['good', 'Active'],
  paused: ['wait', 'Paused', 'It rejects requests until its owner activates it again.'],
  inactive: ['off', 'Inactive: rejects requests'],
  deprecated: ['wait', 'Deprecated', 'It still responds. Switch to the endpoint that its owner recommends.'],
}

const READINESS: StateWordsOf<NonNullable<Endpoint['readiness']>> = {
  warm: ['good', 'Warm: responds at once'],
  cached: ['wait', 'Cached: loads from disk first', 'The first request waits for that; later ones do not.'],
  cold: ['wait', 'Cold: downloads first', 'The first request waits for the download; later ones do not.'],
}

const REVIEW: StateWordsOf<Endpoint['review_status']> = {
  active: ['good', 'Not needed'],
  pending_review: [
    'wait',
    'Waiting for review',
    'Other accounts can see it once an operator has approved it.',
  ],
  approved: ['good', 'Approved'],
  rejected: ['bad', 'Rejected', "Fix what the reviewer's note names, then make it public again."],
}

const VERSION: StateWordsOf<ModelVersion['lifecycle_status']> = {
  candidate: ['wait', 'Candidate: not tested yet', 'It becomes ready once its test has passed.'],
  ready: ['good', 'Ready'],
  preferred: ['good', 'Preferred'],
  disabled: ['bad', 'Disabled', 'An admin can request another test, which makes it a candidate again.'],
}

const RECEIVER: StateWordsOf<WebhookEndpoint['verification_status'] | 'disabled'> = {
  active: ['good', 'Active'],
  pending_verification: [
    'wait',
    'Not verified yet',
    'It must answer its challenge within 15 minutes. After that, add it again.',
  ],
  disabled: ['bad', 'Off', 'It receives no events until it is switched on.'],
}

const DELIVERY: StateWordsOf<Delivery['status']> = {
  pending: ['wait', 'Waiting', 'Its first attempt is due.'],
  delivering: ['busy', 'Delivering'],
  retrying: ['wait', 'Waiting for a retry', 'The attempts show what to fix at the receiver.'],
  succeeded: ['good', 'Succeeded'],
  failed: ['bad', 'Failed', 'The receiver rejected it permanently. Fix the receiver, then deliver it again.'],
  dead_lettered: [
    'bad',
    'Given up',
    'No attempt succeeded in time. Fix the receiver, then deliver it again.',
  ],
  cancelled: ['off', 'Cancelled'],
}

const ATTEMPT: StateWordsOf<NonNullable<AttemptOutcome> | 'open'> = {
  open: ['busy', 'Delivering'],
  succeeded: ['good', 'Succeeded'],
  retryable: ['wait', 'Failed, can be retried', 'The next attempt starts automatically.'],
  permanent: ['bad', 'Failed permanently', 'Fix the receiver first.'],
  interrupted: ['wait', 'Interrupted', 'The next attempt starts automatically.'],
}
type AttemptOutcome = DeliveryDetail['attempts'][number]['outcome']

const NODE: StateWordsOf<NodeDetail['status']> = {
  online: ['good', 'Online'],
  offline: [
    'bad',
    'Offline',
    'Other nodes take over its work. Check that its process is running and can reach a gateway.',
  ],
  draining: [
    'wait',
    'Draining: accepts no new work',
    'It finishes its current work. Resume it so that it accepts new work.',
  ],
  removed: ['off', 'Removed'],
}

const NODE_MODEL: StateWordsOf<NodeDetail['models'][number]['state'] | 'asleep'> = {
  cold: ['off', 'Not on this node'],
  downloading_model: ['busy', 'Downloading'],
  loading_model: ['busy', 'Loading'],
  warm: ['good', 'Loaded'],
  running: ['busy', 'Busy'],
  idle: ['good', 'Loaded, idle'],
  asleep: ['wait', 'Asleep', 'The next request wakes it, which is faster than a load.'],
  evicted: ['off', 'Unloaded'],
}

const ENVIRONMENT: StateWordsOf<NodeDetail['environments'][number]['state']> = {
  absent: ['off', 'Installed when needed'],
  installing: ['busy', 'Installing'],
  ready: ['good', 'Ready'],
  failed: ['bad', 'Failed', 'The node tries again when work needs it.'],
}

const COHORT: StateWordsOf<Cohort['status']> = {
  preparing: ['busy', 'Preparing its models'],
  queued: ['wait', 'Queued', 'Its first stages start once its workflow has started.'],
  running: ['busy', 'Running'],
  succeeded: ['good', 'Succeeded'],
  failed: ['bad', 'Failed', 'Run it again with resume_of: the new run reuses finished stages.'],
  cancelled: ['off', 'Cancelled'],
}

const STAGE: StateWordsOf<CohortStage['status']> = {
  pending: ['wait', 'Waiting for earlier stages', 'It starts once they can provide its inputs.'],
  called: ['busy', 'Called: waiting for its node'],
  loading: ['busy', 'Loading the model'],
  waiting: ['wait', 'Waiting for its inputs', 'It runs once they have arrived.'],
  running: ['busy', 'Running'],
  succeeded: ['good', 'Succeeded'],
  failed: ['bad', 'Failed', 'The cohort continues without it only if its graph allows that.'],
  skipped: ['off', 'Skipped'],
  cancelled: ['off', 'Cancelled'],
}

const EDGE: StateWordsOf<CohortEdge['state']> = {
  planned: ['off', 'Planned'],
  negotiating: ['busy', 'Choosing a transport'],
  negotiated: ['busy', 'Transport chosen'],
  connecting: ['busy', 'Connecting'],
  open: ['busy', 'Handing over'],
  transferred: ['busy', 'Handed over'],
  consumed: ['good', 'Consumed'],
  failed: ['bad', 'Failed', 'It is retried, over another transport if there is one.'],
}

const FOUND: StateWordsOf<NonNullable<Task['model_state']>> = {
  resident: ['good', 'Loaded'],
  cached: ['off', 'On disk; it was loaded first'],
  cold: ['off', 'Absent; it was downloaded first'],
}

/** The labels of every state in the API, by the kind of resource. */
export const STATES = {
  run: RUN,
  pause: PAUSE,
  task: TASK,
  dataset: DATASET,
  endpoint: ENDPOINT,
  readiness: READINESS,
  review: REVIEW,
  version: VERSION,
  receiver: RECEIVER,
  delivery: DELIVERY,
  attempt: ATTEMPT,
  node: NODE,
  nodeModel: NODE_MODEL,
  environment: ENVIRONMENT,
  cohort: COHORT,
  stage: STAGE,
  edge: EDGE,
  found: FOUND,
}
export type StateKind = keyof typeof STATES

/** Returns the state of a dataset: `reading` once the platform reads the file of a pending one. */
export const datasetState = ({ status, is_reading }: Dataset): string =>
  status === 'pending' && is_reading ? 'reading' : status

/** States that only newer gateways know are shown by their names. */
export const stateWordsFor = (as: StateKind, state: string): StateWords =>
  (STATES[as] as StateWordsOf<string>)[state] ?? ['off', state.replaceAll('_', ' ')]

/** The text for waiting work, if the API says what it waits for. */
export const waitingFor = (reason: string | null | undefined): string | undefined =>
  reason ? `Waiting: ${reason}` : undefined

export const stateOfRun = ({ status, paused }: Run): { as: StateKind; of: string } =>
  paused && (status === 'pending' || status === 'running')
    ? { as: 'pause', of: 'paused' }
    : { as: 'run', of: status }
