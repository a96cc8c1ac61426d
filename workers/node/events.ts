import { defineEvents, error, info, warn } from '../../platform/events.ts'

/** Emits what a node logs of itself and of its way to Temporal; docs/events.md lists it. */
export const emit = defineEvents({
  'node.started': info('taking work', {
    node_id: 'string',
    hardware: 'string',
    cpus: 'number',
    memory_mb: 'number',
    ram_mb: 'number',
    gpus: 'json',
    profiles: 'string[]',
    train_slots: 'number',
    isolation: 'json?',
    platform: 'string',
    version: 'string',
  }),
  'node.stopped': info('stopped', {}),
  'node.draining': info('draining: taking nothing new', {}),
  'node.resumed': info('taking work again', {}),
  'node.shared': info('working for every account', { sharing: 'string' }),
  'node.dedicated': info('working for its own account', { sharing: 'string' }),
  'node.leftovers_ended': warn('ended what an earlier life of this node left running', { reaped: 'number' }),
  'node.isolation_incomplete': warn("what runs here is held less than it should be for strangers' work", {
    gaps: 'string[]',
  }),
  'node.profiles_lacking': info('this node cannot run some profiles', { lacks: 'string[]' }),
  'node.gpus_left_out': warn('this node does not use some GPUs of its machine', {
    cuda_visible_devices: 'string?',
    left_out: 'string[]',
    ignored: 'string[]',
  }),
  'node.xpus_unused': warn(
    'this node has Intel XPUs, which no environment can use: models and runs take its processors',
    {},
  ),
  'node.gateways_save_failed': warn(undefined, { err: 'error' }),
  'gate.awaited': warn('waiting for the way to Temporal', { reason: 'string' }),
  'gate.moved': info('the gate to Temporal has moved, and this node has followed', {
    from: 'string',
    to: 'string',
  }),
  'gate.unreachable': warn('the gate to Temporal does not answer: this node takes no durable work', {
    address: 'string',
    reason: 'string',
  }),
  'gate.refused': warn('the gate to Temporal refuses calls of this node', {
    address: 'string',
    reason: 'string',
  }),
  'gate.reached': info('the gate to Temporal answers again', { address: 'string' }),
  'gate.credential_failed': warn('the credential for Temporal could not be renewed; trying again', {
    reason: 'string',
  }),
  'queue.poll_failed': warn('a task queue could not be polled; trying again', {
    err: 'error',
    queue: 'string',
  }),
  'queue.close_forced': info('work of a closed task queue did not end in time and continues elsewhere', {
    err: 'error',
    queue: 'string',
  }),
  'queue.poll_ended': error('polling of a task queue broke off', { err: 'error', queue: 'string' }),
})
