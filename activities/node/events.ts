import { defineEvents, info, warn } from '../../platform/events.ts'

/** Emits the log events of a node's activities; docs/events.md lists them. */
export const emit = defineEvents({
  'job.attempt_started': info('started a job attempt', { job_id: 'string', attempt: 'number' }),
  'job.attempt_ended': info('a job attempt ended without a result', {
    job_id: 'string',
    code: 'string?',
  }),
  'model.comparison_failed': warn("could not compare a candidate's logits", {
    err: 'error',
    model_key: 'string',
  }),
  'evaluation.step_failed': warn('a step of a structured run failed', {
    err: 'error',
    run_id: 'string',
    step: 'string',
  }),
  'lease.return_failed': warn('could not return a lease', { err: 'error', task_id: 'string' }),
})
