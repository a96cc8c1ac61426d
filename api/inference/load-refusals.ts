import { ApiError } from '../../domain/errors.ts'
import { missingEnvironment, type NodeSnapshot } from '../../domain/placement/node-snapshot.ts'
import type { NodeEnvironment } from '../../schemas/nodes/node.ts'

/** The default of `Retry-After` in seconds. */
export const RETRY_AFTER_S = 5
/** Caps a node's own estimate. */
const MAX_RETRY_AFTER_S = 3_600

export const unavailable = (code: 'model_cold' | 'no_capacity', message: string, seconds: number): ApiError =>
  new ApiError(code, message, {
    headers: { 'retry-after': String(Math.min(seconds, MAX_RETRY_AFTER_S)) },
  })

/** A node's delay before it can load a model. It doesn't count against the waiting time of requests. */
export interface LoadDelay {
  readonly ms: number
  readonly refusal: () => ApiError
}

/**
 * Returns why a node can't load a model yet: its environment isn't installed, or the models that it would have to evict
 * have only just been loaded.
 */
export function delayOn(
  snapshot: Pick<NodeSnapshot, 'environments' | 'models'>,
  need: { model_key: string; runtime_profile: string },
): LoadDelay | undefined {
  const missing = missingEnvironment(snapshot, need.runtime_profile)
  if (missing) return { ms: (missing.eta_s ?? 0) * 1_000, refusal: () => unprepared(missing) }
  const ms = snapshot.models.find(({ model_key }) => model_key === need.model_key)?.memory_in_ms
  return ms === undefined ? undefined : { ms, refusal: () => memoryInUse(ms) }
}

function memoryInUse(ms: number): ApiError {
  const seconds = Math.max(1, Math.ceil(ms / 1_000))
  const message = `its node has just loaded other models and cannot evict them for ${seconds} s; try again then`
  return unavailable('model_cold', message, seconds)
}

const unprepared = (missing: NodeEnvironment): ApiError => {
  const seconds = (missing.eta_s ?? RETRY_AFTER_S) + RETRY_AFTER_S
  if (missing.state === 'failed') {
    const why = `its node could not install the environment ${missing.name} and will retry: ${missing.error ?? ''}`
    return unavailable('model_cold', why, seconds)
  }
  const share = missing.progress === undefined ? '' : ` (${Math.round(missing.progress * 100)} %)`
  const message =
    `its node installs the environment ${missing.name}${share} (once per machine); ` +
    `the model can be loaded in about ${missing.eta_s ?? RETRY_AFTER_S} s; try again then`
  return unavailable('model_cold', message, seconds)
}

export const cold = (waitedMs: number): ApiError =>
  unavailable(
    'model_cold',
    `the model was not loaded within ${Math.round(waitedMs / 100) / 10} s; try again`,
    RETRY_AFTER_S,
  )
