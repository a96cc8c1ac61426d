import { getCapabilities } from './get-capabilities.ts'
import { getHealth } from './get-health.ts'
import { getInferenceHealth } from './get-inference-health.ts'

export const health = [getHealth, getInferenceHealth, getCapabilities]
