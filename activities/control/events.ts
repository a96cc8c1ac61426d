import { debug, defineEvents, error, info, warn } from '../../platform/events.ts'

/** Emits what the activities of a worker log; docs/events.md lists it. */
export const emit = defineEvents({
  'job.wait_note_failed': warn('why a job waits could not be noted', { err: 'error', job_id: 'string' }),
  'cohort.overdue_failed': warn(
    'work of a cohort whose time has run out was not ended; the next pass tries again',
    {
      err: 'error',
      cohort_id: 'string',
    },
  ),
  'job.wait_signal_failed': debug('the workflow was not told why it waits', {
    err: 'error',
    job_id: 'string',
  }),
  'checkpoint.prune_failed': warn('checkpoints were not deleted; they go with the run', {
    err: 'error',
    job_id: 'string',
  }),
  'usage.counts_cut': warn('counts that no inference can have had were cut to what one can', {
    rows: 'number',
  }),
  'workflow.orphan_settled': warn('found work that nobody had', {
    workflow_id: 'string',
    orphan: 'json',
  }),
  'workflow.orphan_settle_failed': error('work that nobody has could not be settled', {
    err: 'error',
    workflow_id: 'string',
  }),
  'workflow.list_failed': debug('which workflows run could not be listed: each is asked about by itself', {
    err: 'error',
  }),
  'webhook.delivery_failed': error('a delivery could not be sent', { err: 'error', delivery_id: 'string' }),
  'webhook.settle_delayed': warn('results of deliveries wait for the database', {
    err: 'error',
    attempts: 'number',
  }),
  'webhook.settle_failed': error('results of deliveries were not recorded', {
    err: 'error',
    attempts: 'number',
  }),
  'webhook.disabled': info('a webhook endpoint answered 410 and is disabled', {
    webhook_endpoint_id: 'string',
  }),
  'webhook.challenge_failed': info('a challenge was not answered', {
    webhook_endpoint_id: 'string',
    reason: 'string',
  }),
  'webhook.notify_lost': warn('fresh deliveries are looked for by polling alone', { err: 'error' }),
})
