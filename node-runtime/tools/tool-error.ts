/** The failure of a run, with the sentence for its owner. */
export class ToolError extends Error {
  override readonly name = 'ToolError'
  /** True when this node could not run the tool, and another one may. */
  readonly isOfNode: boolean

  constructor(message: string, { isOfNode = false, cause }: { isOfNode?: boolean; cause?: unknown } = {}) {
    super(message, { cause })
    this.isOfNode = isOfNode
  }
}
