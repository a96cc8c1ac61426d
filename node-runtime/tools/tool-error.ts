/** The failure of a run, with the sentence for its owner. */
export class ToolError extends Error {
  override readonly name = 'ToolError'
  /** True when this node could not run the tool, and another one may. */
  readonly isOfNode: boolean
  /** True when the tool was ended at its time limit. */
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
