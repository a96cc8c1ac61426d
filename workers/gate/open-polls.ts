/** A poll that is waiting for work. */
export interface OpenPoll {
  readonly nodeId: string
  readonly queue: string
  /** Ends the poll if the node may no longer poll that queue. */
  recheck(): void
}

/** The kinds of calls, each with its own limit: long polls must never block heartbeats and results. */
export type CallKind = 'poll' | 'other'

/**
 * The maximum number of concurrent calls from one node. A node keeps at most 135 polls open (workers/node/queues.ts).
 * Nodes up to 0.12 kept ten polls per model, so the limit leaves room for fifty models. All other calls are short.
 */
const MAX_CALLS: Readonly<Record<CallKind, number>> = { poll: 600, other: 200 }
/** Refusals are reported for this long after the last one; the SDK retries refused calls every few seconds. */
const REFUSAL_TTL_MS = 60_000

/** The refusals of one node's calls. */
interface RefusalCount {
  count: number
  lastAt: number
  kind: CallKind
}

/** The calls in flight at this gate, by node. */
export class OpenCalls {
  readonly #counts = new Map<string, Record<CallKind, number>>()
  readonly #refused = new Map<string, RefusalCount>()
  readonly #polls = new Set<OpenPoll>()

  /** Returns false when the node has reached its limit for calls of this kind. */
  begin(nodeId: string, kind: CallKind): boolean {
    const counts = this.#counts.get(nodeId) ?? { poll: 0, other: 0 }
    if (counts[kind] >= MAX_CALLS[kind]) {
      const refused = this.#recentRefusals(nodeId)
      this.#refused.set(nodeId, { count: (refused?.count ?? 0) + 1, lastAt: performance.now(), kind })
      return false
    }
    counts[kind] += 1
    this.#counts.set(nodeId, counts)
    return true
  }

  end(nodeId: string, kind: CallKind): void {
    const counts = this.#counts.get(nodeId)
    if (!counts) return
    counts[kind] -= 1
    if (counts.poll + counts.other === 0) this.#counts.delete(nodeId)
  }

  /** Returns the number of a node's open polls. */
  openPolls(nodeId: string): number {
    return this.#counts.get(nodeId)?.poll ?? 0
  }

  /** Describes a node's recently refused calls; undefined when there were none. */
  refusals(nodeId: string): string | undefined {
    const refused = this.#recentRefusals(nodeId)
    if (!refused) return undefined
    const { count, kind } = refused
    const what = kind === 'poll' ? 'open polls' : 'calls in flight'
    return `the gate rejected ${count} ${count === 1 ? 'call' : 'calls'} from this node: it has more than ${MAX_CALLS[kind]} ${what}`
  }

  #recentRefusals(nodeId: string): RefusalCount | undefined {
    const refused = this.#refused.get(nodeId)
    if (refused && performance.now() - refused.lastAt > REFUSAL_TTL_MS) {
      this.#refused.delete(nodeId)
      return undefined
    }
    return refused
  }

  add(poll: OpenPoll): () => void {
    this.#polls.add(poll)
    return () => this.#polls.delete(poll)
  }

  recheck(): void {
    for (const poll of this.#polls) poll.recheck()
  }
}
