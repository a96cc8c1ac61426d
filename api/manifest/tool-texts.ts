import { LRUCache } from 'lru-cache'
import { temporaryError } from '../../domain/errors.ts'
import type { ToolManifest } from '../../schemas/tool.ts'
import type { Tool } from './tool.ts'

const MB = 1024 * 1024

/** The memory for texts. A text larger than the second limit is never cached, so it can't evict the others. */
const HELD_BYTES = 64 * MB
const MAX_HELD_BYTES = 256 * 1024
/** The maximum size of one read. */
const READ_BYTES = 2 * MB
const READ_TOOLS = 100

/** Reads the current texts of tools; omits tools that have changed. */
export type ReadTexts = (tools: readonly Tool[]) => Promise<ReadonlyMap<Tool, Buffer>>

/**
 * The JSON texts of tools. Only recently used texts are in memory, because there may be many tools with large schemas;
 * all others are read from the database when they are sent.
 */
export class ToolTexts {
  readonly #held = new LRUCache<string, Buffer>({
    maxSize: HELD_BYTES,
    maxEntrySize: MAX_HELD_BYTES,
    sizeCalculation: ({ length }) => length,
  })
  readonly #read: ReadTexts

  constructor(read: ReadTexts) {
    this.#read = read
  }

  /** The bytes in memory. */
  get heldBytes(): number {
    return this.#held.calculatedSize
  }

  hold(tool: Tool, text: Buffer): void {
    this.#held.set(keyOf(tool), text)
  }

  /** Yields the texts of tools in order. Throws a 503 if a tool has changed since it was listed. */
  async *of(tools: readonly Tool[]): AsyncGenerator<Buffer, void, void> {
    let read: ReadonlyMap<Tool, Buffer> = new Map()
    for (const [at, tool] of tools.entries()) {
      let text = this.#find(tool) ?? read.get(tool)
      if (!text) {
        read = await this.#readFrom(tools, at)
        text = read.get(tool)
      }
      if (!text)
        throw temporaryError(
          'unavailable',
          `the tool ${tool.slug} has changed since it was listed; list the tools again`,
          1,
        )
      yield text
    }
  }

  async manifest(tool: Tool): Promise<ToolManifest> {
    const { value } = await this.of([tool]).next()
    return JSON.parse(String(value)) as ToolManifest
  }

  #find(tool: Tool): Buffer | undefined {
    return tool.text ?? this.#held.get(keyOf(tool))
  }

  /** Reads the next tools, starting at index `from`, that aren't in memory. */
  async #readFrom(tools: readonly Tool[], from: number): Promise<ReadonlyMap<Tool, Buffer>> {
    const missing: Tool[] = []
    for (let at = from, bytes = 0; at < tools.length && missing.length < READ_TOOLS; at++) {
      const tool = tools[at]
      if (!tool || this.#find(tool)) continue
      bytes += tool.bytes
      if (missing.length > 0 && bytes > READ_BYTES) break
      missing.push(tool)
    }
    const read = await this.#read(missing)
    for (const [tool, text] of read) this.hold(tool, text)
    return read
  }
}

/** Equal texts are stored once. */
const keyOf = ({ digest }: Tool): string => digest.toString('latin1')
