/** The error code of a stage that ran longer than its `timeout_s`. */
export const STAGE_TIMEOUT = 'timeout'
/** How long a node gets to end overdue work itself before the platform does, in seconds. */
export const STAGE_GRACE_S = 15

export const timeoutMessage = (timeoutS: number): string =>
  `it ran longer than its timeout_s of ${timeoutS} s: increase timeout_s to give it more time`

/** A stage ran longer than its timeout. */
export class StageTimeoutError extends Error {
  override readonly name = 'StageTimeoutError'

  constructor(timeoutS: number, options?: { cause?: unknown }) {
    super(timeoutMessage(timeoutS), options)
  }
}

/** A stage's tool reached its own time limit, as it would on every node. */
export class ToolTimeoutError extends Error {
  override readonly name = 'ToolTimeoutError'

  /** `field` is the member of the tool's input that sets its time limit. */
  constructor(reason: string, field: string | undefined, options?: { cause?: unknown }) {
    const more = field === undefined ? '' : `, or more time with "${field}" in its input`
    super(`${reason}: give it less work${more}`, options)
  }
}
