import { placeOf, type Tool } from './tool.ts'

let lastStamp = 0

/** One owner's tools, or the public tools, sorted by slug. */
export class ToolSet {
  readonly #byEndpoint = new Map<string, Tool>()
  readonly #sorted: Tool[]
  #stamp = ++lastStamp

  /** Accepts at most one tool per endpoint. */
  constructor(tools: readonly Tool[]) {
    for (const tool of tools) this.#byEndpoint.set(tool.origin?.endpointId ?? '', tool)
    this.#sorted = tools.toSorted((a, b) => (a.slug < b.slug ? -1 : 1))
  }

  /** A stamp that is unique to this set and that changes with every change to it. */
  get stamp(): number {
    return this.#stamp
  }

  get tools(): readonly Tool[] {
    return this.#sorted
  }

  has(endpointId: string): boolean {
    return this.#byEndpoint.has(endpointId)
  }

  /** Replaces or removes an endpoint's tool; returns whether anything changed. */
  put(endpointId: string, tool: Tool | undefined): boolean {
    const before = this.#byEndpoint.get(endpointId)
    if (before && tool ? before.digest.equals(tool.digest) : before === tool) return false
    if (before) {
      this.#byEndpoint.delete(endpointId)
      this.#sorted.splice(this.#sorted.indexOf(before, placeOf(this.#sorted, before.slug)), 1)
    }
    if (tool) {
      this.#byEndpoint.set(endpointId, tool)
      this.#sorted.splice(placeOf(this.#sorted, tool.slug), 0, tool)
    }
    this.#stamp = ++lastStamp
    return true
  }
}
