import { defineEvents, warn } from '../platform/events.ts'

/** Emits what is logged of the database by every process that keeps caches; docs/events.md lists it. */
export const emit = defineEvents({
  'cache.poll_failed': warn('cannot see whether caches are up to date', { err: 'error' }),
  'cache.notify_lost': warn('caches are looked after by polling alone', { err: 'error' }),
})
