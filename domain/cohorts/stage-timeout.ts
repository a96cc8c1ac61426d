/** The code of a stage that has run for longer than its `timeout_s`. */
export const STAGE_TIMEOUT = 'timeout'
/** The seconds that a node has to end overdue work by itself, before the platform does. */
export const STAGE_GRACE_S = 15

export const timeoutMessage = (timeoutS: number): string =>
  `it has run for longer than its timeout_s, ${timeoutS} s`

/** A stage has run for longer than it may. */
export class StageTimeoutError extends Error {
  override readonly name = 'StageTimeoutError'

  constructor(timeoutS: number, options?: { cause?: unknown }) {
    super(timeoutMessage(timeoutS), options)
  }
}
