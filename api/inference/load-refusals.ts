import { ApiError } from '../../domain/errors.ts'
import type { NodeEnvironment } from '../../schemas/node.ts'

/** The default of `Retry-After` in seconds. */
export const RETRY_AFTER_S = 5
/** The limit for a node's own estimate. */
const LONGEST_RETRY_AFTER_S = 3_600

export const unavailable = (code: 'model_cold' | 'no_capacity', message: string, seconds: number): ApiError =>
  new ApiError(code, message, {
    headers: { 'retry-after': String(Math.min(seconds, LONGEST_RETRY_AFTER_S)) },
  })

export const installMs = (missing: NodeEnvironment | undefined): number => (missing?.eta_s ?? 0) * 1_000

export const unprepared = (missing: NodeEnvironment): ApiError => {
  const seconds = (missing.eta_s ?? RETRY_AFTER_S) + RETRY_AFTER_S
  if (missing.state === 'failed') {
    const why = `its node could not install the environment ${missing.name}, and tries again: ${missing.error ?? ''}`
    return unavailable('model_cold', why, seconds)
  }
  const share = missing.progress === undefined ? '' : ` (${Math.round(missing.progress * 100)} %)`
  const message =
    `its node installs the environment ${missing.name}${share}, once per machine: ` +
    `the model can be loaded in about ${missing.eta_s ?? RETRY_AFTER_S} s; come back then`
  return unavailable('model_cold', message, seconds)
}

export const cold = (waitedMs: number): ApiError =>
  unavailable(
    'model_cold',
    `the model was not loaded within ${Math.round(waitedMs / 100) / 10} s; try again`,
    RETRY_AFTER_S,
  )
