/** Error code of a stage whose producers delivered fewer values than its quorum. */
export const QUORUM_NOT_MET = 'quorum_not_met'

/** Too few hand-overs into a stage have a value, and no more can arrive. */
export class QuorumError extends Error {
  override readonly name = 'QuorumError'

  constructor({ consumed, quorum, edges }: { consumed: number; quorum: number; edges: number }) {
    super(
      `only ${consumed} of ${edges} hand-overs delivered a value, but the quorum is ${quorum}; ` +
        'the other producers ended without delivering one',
    )
  }
}
