/** The code of a stage that has run for longer than its `timeout_s`. */
export const STAGE_TIMEOUT = 'timeout'
/** The seconds that a node has to end overdue work by itself, before the platform does. */
export const STAGE_GRACE_S = 15

export const timeoutMessage = (timeoutS: number): string =>
  `it has run for longer than its timeout_s, ${timeoutS} s: a larger one gives it more time`

/** A stage has run for longer than it may. */
export class StageTimeoutError extends Error {
  override readonly name = 'StageTimeoutError'

  constructor(timeoutS: number, options?: { cause?: unknown }) {
    super(timeoutMessage(timeoutS), options)
  }
}

/** The tool of a stage has reached a time limit of its own, as it would on every node. */
export class ToolTimeoutError extends Error {
  override readonly name = 'ToolTimeoutError'

  /** `field` is the member of the tool's input that gives it more time. */
  constructor(reason: string, field: string | undefined, options?: { cause?: unknown }) {
    const more = field === undefined ? '' : `, or more time by "${field}" of its input`
    super(`${reason}: give it less to do${more}`, options)
  }
}
