import { placeOf, type Tool } from './tool.ts'

let lastStamp = 0

/** Tools of one owner, or those that everybody may call, sorted by slug. */
export class ToolSet {
  readonly #byEndpoint = new Map<string, Tool>()
  readonly #sorted: Tool[]
  #stamp = ++lastStamp

  /** Takes the tools of endpoints, at most one of each. */
  constructor(tools: readonly Tool[]) {
    for (const tool of tools) this.#byEndpoint.set(tool.origin?.endpointId ?? '', tool)
    this.#sorted = tools.toSorted((a, b) => (a.slug < b.slug ? -1 : 1))
  }

  /** Differs from that of every other set, and from its own before any change. */
  get stamp(): number {
    return this.#stamp
  }

  get tools(): readonly Tool[] {
    return this.#sorted
  }

  has(endpointId: string): boolean {
    return this.#byEndpoint.has(endpointId)
  }

  /** Replaces the tool of an endpoint, or removes it; returns whether that has changed anything. */
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
