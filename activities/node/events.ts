import { defineEvents, info, warn } from '../../platform/events.ts'

/** Emits what the activities of a node log; docs/events.md lists it. */
export const emit = defineEvents({
  'job.attempt_started': info('working on a job', { job_id: 'string', attempt: 'number' }),
  'job.attempt_ended': info('an attempt at a job ended without a result', {
    job_id: 'string',
    code: 'string?',
  }),
  'model.comparison_failed': warn('the logits of a candidate could not be compared', {
    err: 'error',
    model_key: 'string',
  }),
  'evaluation.step_failed': warn('a step of a structured run ended without its result', {
    err: 'error',
    run_id: 'string',
    step: 'string',
  }),
  'lease.return_failed': warn('a lease could not be handed back', { err: 'error', task_id: 'string' }),
})
