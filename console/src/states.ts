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
  pending: ['wait', 'Waiting', 'It begins as soon as a node that can run it has room.'],
  running: ['busy', 'Running'],
  completed: ['good', 'Completed'],
  failed: ['bad', 'Failed', 'Mend what the reason and the end of the log name, and run it again.'],
  cancelled: ['off', 'Cancelled'],
}

/** A paused run keeps its status, so the pause has its own entry. */
const PAUSE: StateWordsOf<'paused'> = {
  paused: ['wait', 'Paused', 'It goes on from its last checkpoint once it is resumed.'],
}

const TASK: StateWordsOf<Task['status']> = {
  queued: ['wait', 'Queued', 'A node takes it as soon as one that can load the model has room.'],
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
    'Its price was given back. Mend the input where the reason names it, and ask again.',
  ],
}

const DATASET: StateWordsOf<Dataset['status'] | 'reading'> = {
  pending: ['wait', 'Waiting for a file', 'Upload a file to it, or delete it.'],
  reading: ['wait', 'Reading the file', 'It can be trained on once its file has been read.'],
  ready: ['good', 'Ready'],
  failed: ['bad', 'Failed', 'Mend the file, and upload it again.'],
}

const ENDPOINT: StateWordsOf<Endpoint['status']> = {
  active: ['good', 'Active'],
  paused: ['wait', 'Paused', 'It refuses requests until its owner makes it active again.'],
  inactive: ['off', 'Inactive: refuses requests'],
  deprecated: ['wait', 'Deprecated', 'It still answers. Move to the endpoint that its owner names instead.'],
}

const READINESS: StateWordsOf<NonNullable<Endpoint['readiness']>> = {
  warm: ['good', 'Warm: answers at once'],
  cached: ['wait', 'Cached: loads from disk first', 'The first request waits for that; later ones do not.'],
  cold: ['wait', 'Cold: downloads first', 'The first request waits for the download; later ones do not.'],
}

const REVIEW: StateWordsOf<Endpoint['review_status']> = {
  active: ['good', 'Needs none'],
  pending_review: ['wait', 'Waits for a review', 'Other accounts see it once an operator has approved it.'],
  approved: ['good', 'Approved'],
  rejected: ['bad', 'Rejected', 'Change what the note of the reviewer names, and make it public again.'],
}

const VERSION: StateWordsOf<ModelVersion['lifecycle_status']> = {
  candidate: ['wait', 'Candidate: not tested yet', 'It becomes ready once its test has passed.'],
  ready: ['good', 'Ready'],
  preferred: ['good', 'Preferred'],
  disabled: ['bad', 'Disabled', 'An admin may have it tested again, which makes it a candidate.'],
}

const RECEIVER: StateWordsOf<WebhookEndpoint['verification_status'] | 'disabled'> = {
  active: ['good', 'Active'],
  pending_verification: [
    'wait',
    'Not verified yet',
    'It has to answer its challenge within 15 minutes; later, add it anew.',
  ],
  disabled: ['bad', 'Off', 'It is told nothing until it is switched on.'],
}

const DELIVERY: StateWordsOf<Delivery['status']> = {
  pending: ['wait', 'Waiting', 'Its first attempt is due.'],
  delivering: ['busy', 'Delivering'],
  retrying: ['wait', 'Will be tried again', 'The attempts say what the receiver has to mend until then.'],
  succeeded: ['good', 'Succeeded'],
  failed: ['bad', 'Failed', 'The receiver refused it for good. Mend the receiver, and deliver it again.'],
  dead_lettered: [
    'bad',
    'Given up',
    'No attempt succeeded in time. Mend the receiver, and deliver it again.',
  ],
  cancelled: ['off', 'Cancelled'],
}

const ATTEMPT: StateWordsOf<NonNullable<AttemptOutcome> | 'open'> = {
  open: ['busy', 'Delivering'],
  succeeded: ['good', 'Succeeded'],
  retryable: ['wait', 'Failed, may be tried again', 'The next attempt follows by itself.'],
  permanent: ['bad', 'Failed for good', 'The receiver has to be mended first.'],
  interrupted: ['wait', 'Interrupted', 'The next attempt follows by itself.'],
}
type AttemptOutcome = DeliveryDetail['attempts'][number]['outcome']

const NODE: StateWordsOf<NodeDetail['status']> = {
  online: ['good', 'Online'],
  offline: [
    'bad',
    'Offline',
    'Its work goes to other nodes. See that its process runs and reaches a gateway.',
  ],
  draining: [
    'wait',
    'Draining: takes no new work',
    'It finishes what it has. Resume it to have it take work.',
  ],
  removed: ['off', 'Removed'],
}

const NODE_MODEL: StateWordsOf<NodeDetail['models'][number]['state']> = {
  cold: ['off', 'Not here'],
  downloading_model: ['busy', 'Downloading'],
  loading_model: ['busy', 'Loading'],
  warm: ['good', 'Loaded'],
  running: ['busy', 'At work'],
  idle: ['good', 'Loaded, idle'],
  evicted: ['off', 'Let go'],
}

const ENVIRONMENT: StateWordsOf<NodeDetail['environments'][number]['state']> = {
  absent: ['off', 'Installed when it is needed'],
  installing: ['busy', 'Is installed now'],
  ready: ['good', 'Ready'],
  failed: ['bad', 'Failed', 'The node tries again with the next work that needs it.'],
}

const COHORT: StateWordsOf<Cohort['status']> = {
  preparing: ['busy', 'Preparing its models'],
  queued: ['wait', 'Queued', 'Its first stages are called once its workflow has begun.'],
  running: ['busy', 'Running'],
  succeeded: ['good', 'Succeeded'],
  failed: ['bad', 'Failed', 'Run it again with resume_of: stages that have finished are taken over.'],
  cancelled: ['off', 'Cancelled'],
}

const STAGE: StateWordsOf<CohortStage['status']> = {
  pending: ['wait', 'Waits for earlier stages', 'It is called once they have what it needs.'],
  called: ['busy', 'Called: its node takes it'],
  loading: ['busy', 'Loading the model'],
  waiting: ['wait', 'Waits for its inputs', 'It runs once they have been handed over.'],
  running: ['busy', 'Running'],
  succeeded: ['good', 'Succeeded'],
  failed: ['bad', 'Failed', 'The cohort goes on without it only where its graph says so.'],
  skipped: ['off', 'Skipped'],
  cancelled: ['off', 'Cancelled'],
}

const EDGE: StateWordsOf<CohortEdge['state']> = {
  planned: ['off', 'Planned'],
  negotiating: ['busy', 'Agreeing on a way'],
  negotiated: ['busy', 'Agreed'],
  connecting: ['busy', 'Connecting'],
  open: ['busy', 'Handing over'],
  transferred: ['busy', 'Handed over'],
  consumed: ['good', 'Taken in'],
  failed: ['bad', 'Failed', 'It is tried again, by another way where there is one.'],
}

const FOUND: StateWordsOf<NonNullable<Task['model_state']>> = {
  resident: ['good', 'Loaded'],
  cached: ['off', 'On disk, and was loaded first'],
  cold: ['off', 'Absent, and was downloaded first'],
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
