import { anyLevel, defineEvents, warn } from '../platform/events.ts'

/** Emits what worker, gate and node have in common; docs/events.md lists it. */
export const emit = defineEvents({
  'dependency.awaited': warn('waiting for {dependency}', { reason: 'string' }),
  'temporal.log': anyLevel('{message}', { err: 'error?' }),
})
