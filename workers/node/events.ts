import { defineEvents, error, info, warn } from '../../platform/events.ts'

/** Emits a node's own log events and those of its connection to Temporal; docs/events.md lists them. */
export const emit = defineEvents({
  'node.started': info('accepting work', {
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
  'node.draining': info('draining: not accepting new work', {}),
  'node.resumed': info('accepting work again', {}),
  'node.shared': info('accepting work from every account', { sharing: 'string' }),
  'node.dedicated': info('accepting work only from its own account', { sharing: 'string' }),
  'node.leftovers_ended': warn('ended processes left behind by an earlier run of this node', {
    reaped: 'number',
  }),
  'node.isolation_incomplete': warn("sandboxing is weaker than other accounts' work requires", {
    gaps: 'string[]',
  }),
  'node.profiles_lacking': info('this node cannot run some runtime profiles', { lacks: 'string[]' }),
  'node.gpus_left_out': warn("this node is not using some of its machine's GPUs", {
    cuda_visible_devices: 'string?',
    left_out: 'string[]',
    ignored: 'string[]',
  }),
  'node.xpus_unused': warn(
    'this node has Intel XPUs, which no environment supports: models and runs use the CPUs',
    {},
  ),
  'node.gateways_save_failed': warn(undefined, { err: 'error' }),
  'gate.awaited': warn('waiting for access to Temporal', { reason: 'string' }),
  'gate.moved': info('the Temporal gate has moved; this node has reconnected', {
    from: 'string',
    to: 'string',
  }),
  'gate.unreachable': warn('the Temporal gate is not responding: this node gets no durable work', {
    address: 'string',
    reason: 'string',
  }),
  'gate.refused': warn('the Temporal gate is rejecting calls from this node', {
    address: 'string',
    reason: 'string',
  }),
  'gate.reached': info('the Temporal gate is responding again', { address: 'string' }),
  'gate.credential_failed': warn('could not renew the Temporal credential; trying again', {
    reason: 'string',
  }),
  'queue.poll_failed': warn('could not poll a task queue; trying again', {
    err: 'error',
    queue: 'string',
  }),
  'queue.close_forced': info('work from a closed task queue did not end in time and continues elsewhere', {
    err: 'error',
    queue: 'string',
  }),
  'queue.poll_ended': error('polling of a task queue ended unexpectedly', { err: 'error', queue: 'string' }),
})
