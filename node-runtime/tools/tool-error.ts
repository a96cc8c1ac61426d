/** Thrown if a run fails. The message is for the run's owner. */
export class ToolError extends Error {
  override readonly name = 'ToolError'
  /** True if this node could not run the tool, but another node might. */
  readonly isOfNode: boolean
  /** True if the tool was ended at its time limit. */
  readonly isLate: boolean

  constructor(
    message: string,
    {
      isOfNode = false,
      isLate = false,
      cause,
    }: { isOfNode?: boolean; isLate?: boolean; cause?: unknown } = {},
  ) {
    super(message, { cause })
    this.isOfNode = isOfNode
    this.isLate = isLate
  }
}
