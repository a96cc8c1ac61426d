import { randomUUID } from 'node:crypto'
import type { Tool as ToolEntry } from '@modelcontextprotocol/server'

/** Stands in for the list in a response until its bytes are inserted. */
const PLACEHOLDER: ToolEntry = { name: randomUUID(), inputSchema: { type: 'object' } }
const PLACE = new RegExp(String.raw`("tools":\[)\{[^\]]*${PLACEHOLDER.name}[^\]]*(\])`)

/**
 * The tool list of one response, as JSON that was built once. The protocol's server would copy and serialize each of a
 * thousand tools again; `bench/mcp` shows what that costs.
 */
export class RawList {
  #bytes: Buffer | undefined

  /** Stores the list's JSON, without its brackets; returns the placeholder list for the protocol's server. */
  hold(bytes: Buffer): ToolEntry[] {
    this.#bytes = bytes
    return [PLACEHOLDER]
  }

  /** Returns the bytes of a response with the list inserted, in pieces. */
  fill(response: string): Buffer[] {
    const match = this.#bytes && PLACE.exec(response)
    if (!this.#bytes || !match) return [Buffer.from(response)]
    const [placed, opening = '', closing = ''] = match
    return [
      Buffer.from(response.slice(0, match.index) + opening),
      this.#bytes,
      Buffer.from(closing + response.slice(match.index + placed.length)),
    ]
  }
}
