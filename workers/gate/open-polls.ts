/** A poll that waits for work. */
export interface OpenPoll {
  readonly nodeId: string
  readonly queue: string
  /** Ends it when the node may not have that work any more. */
  recheck(): void
}

/** Polls and other calls of one node at once: more than its SDK ever has (ten for each of fifty models). */
const MOST_CALLS = 600

/** What each node has under way at this gate. */
export class OpenCalls {
  readonly #counts = new Map<string, number>()
  readonly #polls = new Set<OpenPoll>()

  /** False when the node has as many as it may. */
  begin(nodeId: string): boolean {
    const count = this.#counts.get(nodeId) ?? 0
    if (count >= MOST_CALLS) return false
    this.#counts.set(nodeId, count + 1)
    return true
  }

  end(nodeId: string): void {
    const count = this.#counts.get(nodeId) ?? 0
    if (count > 1) this.#counts.set(nodeId, count - 1)
    else this.#counts.delete(nodeId)
  }

  add(poll: OpenPoll): () => void {
    this.#polls.add(poll)
    return () => this.#polls.delete(poll)
  }

  recheck(): void {
    for (const poll of this.#polls) poll.recheck()
  }
}
