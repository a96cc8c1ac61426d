import type { Static } from 'typebox'
import type { Capabilities, Health, InferenceHealth } from '../../schemas/health.ts'
import type { Operations } from '../operations.ts'

/** The state and capabilities of the platform. */
export function platform(on: Operations) {
  return {
    /** Resolves even if the platform is unhealthy. */
    health: on.call<[], Health>({ id: 'getHealth', method: 'GET', path: '/health', also: [503] }),
    inferenceHealth: on.call<[], Static<typeof InferenceHealth>>({
      id: 'getInferenceHealth',
      method: 'GET',
      path: '/inference/health',
      also: [503],
    }),
    capabilities: on.call<[], Static<typeof Capabilities>>({
      id: 'getCapabilities',
      method: 'GET',
      path: '/capabilities',
    }),
  }
}
