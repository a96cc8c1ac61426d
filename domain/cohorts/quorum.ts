/** The code of a stage that fewer producers gave a value than its quorum asks for. */
export const QUORUM_NOT_MET = 'quorum_not_met'

/** Too few hand-overs into a stage have a value, and none is to come any more. */
export class QuorumError extends Error {
  override readonly name = 'QuorumError'

  constructor({ consumed, quorum, edges }: { consumed: number; quorum: number; edges: number }) {
    super(
      `${consumed} of ${edges} hand-overs have a value, and the quorum asks for ${quorum}: the other producers ended without one`,
    )
  }
}
