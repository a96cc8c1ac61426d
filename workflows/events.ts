import { log } from '@temporalio/workflow'
import { defineEvents, warn } from '../platform/events.ts'

/** Emits what workflows log; docs/events.md lists it. */
export const emit = defineEvents({
  'housekeeping.pass_failed': warn('a pass of housekeeping has failed in part', {
    kind: 'string',
    failures: 'number',
    err: 'error',
  }),
})

/** The log of a workflow, which takes the sentence first. */
export const workflowLog = {
  warn: (fields: object, sentence = ''): void => log.warn(sentence, { ...fields }),
}
