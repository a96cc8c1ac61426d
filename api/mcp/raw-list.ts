import { randomUUID } from 'node:crypto'
import type { Tool as ToolEntry } from '@modelcontextprotocol/server'

/** Stands for the list in a response, until its bytes are put there. */
const PLACEHOLDER: ToolEntry = { name: randomUUID(), inputSchema: { type: 'object' } }
const PLACE = new RegExp(String.raw`("tools":\[)\{[^\]]*${PLACEHOLDER.name}[^\]]*(\])`)

/**
 * The list of tools of one response, as JSON that was made once. The protocol's server would copy each of a thousand
 * tools and write it anew: `bench/mcp` shows what that costs.
 */
export class RawList {
  #bytes: Buffer | undefined

  /** Takes the JSON of the list, without its brackets; returns the list that the protocol's server gets. */
  hold(bytes: Buffer): ToolEntry[] {
    this.#bytes = bytes
    return [PLACEHOLDER]
  }

  /** Returns the bytes of a response with the list in its place, in pieces. */
  fill(response: string): Buffer[] {
    const place = this.#bytes && PLACE.exec(response)
    if (!this.#bytes || !place) return [Buffer.from(response)]
    const [placed, opening = '', closing = ''] = place
    return [
      Buffer.from(response.slice(0, place.index) + opening),
      this.#bytes,
      Buffer.from(closing + response.slice(place.index + placed.length)),
    ]
  }
}
