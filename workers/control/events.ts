import { debug, defineEvents, error, info, warn } from '../../platform/events.ts'

/** Emits the worker's own log events; docs/events.md lists them. */
export const emit = defineEvents({
  'worker.started': info('accepting work', { queues: 'string[]', temporal: 'string?' }),
  'worker.stopped': info('stopped', {}),
  'worker.readers_exposed': warn(
    "dataset readers are running without isolation, on this worker's network: unshare is missing or not permitted; see docs/security.md",
    {},
  ),
  'worker.schedules_started': debug('the permanent workflows are running', { workflows: 'string[]' }),
  'worker.schedules_failed': error('could not start the kill switch and housekeeping workflows', {
    err: 'error',
  }),
})
