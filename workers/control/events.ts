import { debug, defineEvents, error, info, warn } from '../../platform/events.ts'

/** Emits what a worker logs of itself; docs/events.md lists it. */
export const emit = defineEvents({
  'worker.started': info('taking work', { queues: 'string[]', temporal: 'string?' }),
  'worker.stopped': info('stopped', {}),
  'worker.readers_exposed': warn(
    'readers of datasets run beside this worker, with its network: this machine has no unshare, or lets nobody use it; docs/security.md',
    {},
  ),
  'worker.schedules_started': debug('what runs for ever is in place', { workflows: 'string[]' }),
  'worker.schedules_failed': error('the kill switch and housekeeping are not in place', { err: 'error' }),
})
