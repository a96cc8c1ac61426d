import { defineEvents, error, info, warn } from '../../platform/events.ts'

/** Emits what the gate logs; docs/events.md lists it. */
export const emit = defineEvents({
  'gate.started': info('nodes may come', { port: 'number', temporal: 'string?' }),
  'gate.stopped': info('stopped', {}),
  'gate.call_failed': error('a call failed in the gate', { err: 'error' }),
  'gate.permissions_failed': warn('cannot read what nodes may poll; trying again', { err: 'error' }),
  'hand_over.refused': warn('work was not handed over; it is placed again', {
    node_id: 'string',
    workflow_id: 'string',
  }),
  'hand_over.return_failed': warn('work was not given back', { err: 'error', workflow_id: 'string' }),
  'hand_over.record_failed': warn('a hand-over could not be recorded', { err: 'error', node_id: 'string' }),
})
