import { defineEvents, warn } from '../platform/events.ts'

/** Emits the database events of every process with caches; docs/events.md lists them. */
export const emit = defineEvents({
  'cache.poll_failed': warn('cannot check whether caches are up to date', { err: 'error' }),
  'cache.notify_lost': warn('lost the notification connection; caches rely on polling alone', {
    err: 'error',
  }),
})
