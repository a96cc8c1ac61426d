import { anyLevel, defineEvents, warn } from '../platform/events.ts'

/** Emits the log events that workers, the gate and nodes share; docs/events.md lists them. */
export const emit = defineEvents({
  'dependency.awaited': warn('waiting for {dependency}', { reason: 'string' }),
  'temporal.log': anyLevel('{message}', { err: 'error?' }),
})
