import { defineEvents, error, info, warn } from '../../platform/events.ts'

/** Emits the gate's log events; docs/events.md lists them. */
export const emit = defineEvents({
  'gate.started': info('accepting calls from nodes', { port: 'number', temporal: 'string?' }),
  'gate.stopped': info('stopped', {}),
  'gate.call_failed': error('the gate could not handle a call', { err: 'error' }),
  'gate.permissions_failed': warn("could not read nodes' permissions; trying again", { err: 'error' }),
  'hand_over.refused': warn('did not hand over work; its workflow will place it again', {
    node_id: 'string',
    workflow_id: 'string',
  }),
  'hand_over.return_failed': warn('could not return work to Temporal', {
    err: 'error',
    workflow_id: 'string',
  }),
  'hand_over.record_failed': warn('could not record a hand-over', { err: 'error', node_id: 'string' }),
})
