import { log } from '@temporalio/workflow'
import { defineEvents, warn } from '../platform/events.ts'

/** Emits the log events of workflows; docs/events.md lists them. */
export const emit = defineEvents({
  'housekeeping.pass_failed': warn('a housekeeping pass partly failed', {
    kind: 'string',
    failures: 'number',
    err: 'error',
  }),
})

/** Adapts the workflow's log, which takes the message first. */
export const workflowLog = {
  warn: (fields: object, sentence = ''): void => log.warn(sentence, { ...fields }),
}
