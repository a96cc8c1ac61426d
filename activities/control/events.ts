import { debug, defineEvents, error, info, warn } from '../../platform/events.ts'

/** Emits the log events of a worker's activities; docs/events.md lists them. */
export const emit = defineEvents({
  'job.wait_note_failed': warn('could not record why a job is waiting', { err: 'error', job_id: 'string' }),
  'cohort.overdue_failed': warn("could not end a cohort's overdue work; the next pass tries again", {
    err: 'error',
    cohort_id: 'string',
  }),
  'job.wait_signal_failed': debug('could not notify a workflow of the reason its job is waiting', {
    err: 'error',
    job_id: 'string',
  }),
  'checkpoint.prune_failed': warn('could not delete checkpoints; they will be deleted with the run', {
    err: 'error',
    job_id: 'string',
  }),
  'usage.counts_cut': warn('reduced implausible usage counts to the maximum for one inference', {
    rows: 'number',
  }),
  'workflow.orphan_settled': warn('settled work whose workflow was gone', {
    workflow_id: 'string',
    orphan: 'json',
  }),
  'workflow.orphan_settle_failed': error('could not settle work whose workflow is gone', {
    err: 'error',
    workflow_id: 'string',
  }),
  'workflow.list_failed': debug('could not list running workflows; describing each one instead', {
    err: 'error',
  }),
  'webhook.delivery_failed': error('could not send a delivery', { err: 'error', delivery_id: 'string' }),
  'webhook.settle_delayed': warn('delivery results are waiting for the database', {
    err: 'error',
    attempts: 'number',
  }),
  'webhook.settle_failed': error('could not record delivery results', {
    err: 'error',
    attempts: 'number',
  }),
  'webhook.disabled': info('a webhook endpoint returned 410 and was disabled', {
    webhook_endpoint_id: 'string',
  }),
  'webhook.challenge_failed': info('a webhook endpoint failed its verification challenge', {
    webhook_endpoint_id: 'string',
    reason: 'string',
  }),
  'webhook.notify_lost': warn(
    'lost the connection for notifications about new deliveries; relying on polling alone',
    {
      err: 'error',
    },
  ),
})
