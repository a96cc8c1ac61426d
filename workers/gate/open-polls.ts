/** A poll that waits for work. */
export interface OpenPoll {
  readonly nodeId: string
  readonly queue: string
  /** Ends the poll when the node may no longer have that work. */
  recheck(): void
}

/** The limit for concurrent calls of one node, above what its SDK needs (ten for each of fifty models). */
const MOST_CALLS = 600

/** The calls in flight at this gate, by node. */
export class OpenCalls {
  readonly #counts = new Map<string, number>()
  readonly #polls = new Set<OpenPoll>()

  /** Returns false when the node has reached its limit. */
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
