/** The words and the tone of each state that the API names; colour is never the only sign. */
const STATES: Record<string, [tone: 'good' | 'busy' | 'wait' | 'bad' | 'off', words: string]> = {
  pending: ['wait', 'Waiting'],
  running: ['busy', 'Running'],
  completed: ['good', 'Completed'],
  succeeded: ['good', 'Succeeded'],
  failed: ['bad', 'Failed'],
  cancelled: ['off', 'Cancelled'],
  queued: ['wait', 'Queued'],
  assigned: ['busy', 'Assigned to a node'],
  claimed: ['busy', 'Claimed by a node'],
  preparing: ['busy', 'Preparing'],
  downloading_model: ['busy', 'Downloading the model'],
  loading_model: ['busy', 'Loading the model'],
  generating: ['busy', 'Generating'],
  uploading_output: ['busy', 'Uploading the output'],
  warm: ['good', 'Warm: answers at once'],
  idle: ['good', 'Loaded'],
  evicted: ['off', 'Let go'],
  cached: ['wait', 'Cached: loads from disk first'],
  cold: ['off', 'Cold: downloads first'],
  active: ['good', 'Active'],
  paused: ['wait', 'Paused'],
  inactive: ['off', 'Inactive'],
  deprecated: ['wait', 'Deprecated'],
  disabled: ['bad', 'Disabled'],
  candidate: ['wait', 'Candidate: not tested yet'],
  ready: ['good', 'Ready'],
  preferred: ['good', 'Preferred'],
  online: ['good', 'Online'],
  offline: ['bad', 'Offline'],
  draining: ['wait', 'Draining: takes no new work'],
  removed: ['off', 'Removed'],
  delivering: ['busy', 'Delivering'],
  retrying: ['wait', 'Will be tried again'],
  dead_lettered: ['bad', 'Given up'],
  pending_verification: ['wait', 'Not verified yet'],
  retryable: ['wait', 'Failed, may be tried again'],
  permanent: ['bad', 'Failed for good'],
  interrupted: ['wait', 'Interrupted'],
  resident: ['good', 'Model was loaded'],
}

export function State({ of, words }: { of: string; words?: string }) {
  const [tone, usual] = STATES[of] ?? ['off', of.replaceAll('_', ' ')]
  return (
    <span className="state" data-tone={tone}>
      {words ?? usual}
    </span>
  )
}
