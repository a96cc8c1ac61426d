import { createHash } from 'node:crypto'
import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import { LRUCache } from 'lru-cache'
import { safeNames } from './names.ts'
import type { ReadTool, Tool, ToolDescription } from './tool.ts'

/** The form of tool names in a listing. */
export type NameForm = 'slugs' | 'safe'

/**
 * The maximum number of tools per page, and roughly its maximum size in bytes: the Python client accepts events of up
 * to a megabyte.
 */
const PAGE = 1_000
const PAGE_BYTES = 512 * 1024

type ListedTool = Tool | ReadTool

interface Page {
  bytes: Buffer
  /** The index of the first tool after this page. */
  to: number
}

/** Recently listed pages, keyed by list; equal lists of several accounts share pages. */
const pages = new LRUCache<string, Page>({
  maxSize: 32 * 1024 * 1024,
  sizeCalculation: ({ bytes }) => bytes.length + 1,
})

/** An account's tools at one moment. A call accepts both forms of a tool's name, whichever was listed. */
export class ToolList {
  readonly #tools: readonly ListedTool[]
  readonly #bySlug: ReadonlyMap<string, ListedTool>
  /** Changes whenever anything that a listing shows changes. */
  readonly #digest: string
  #safe: { bySlug: ReadonlyMap<string, string>; byName: ReadonlyMap<string, ListedTool> } | undefined

  /** @param digest must change with the tools. */
  constructor(tools: readonly ListedTool[], digest: string) {
    this.#tools = tools
    this.#bySlug = new Map(tools.map((tool) => [tool.name, tool]))
    this.#digest = digest
  }

  /** Creates a list of tools with a digest computed from them. */
  static of(tools: readonly Tool[]): ToolList {
    return new ToolList(tools, digestOf(tools))
  }

  find(name: string): ListedTool | undefined {
    return this.#bySlug.get(name) ?? this.#safeNames.byName.get(name)
  }

  /**
   * Returns one page of the listing, as the JSON of its tools. Throws for a cursor from another listing, because the
   * pages wouldn't fit together.
   */
  async page(cursor: string | undefined, form: NameForm): Promise<{ bytes: Buffer; nextCursor?: string }> {
    const from = cursor === undefined ? 0 : this.#decode(cursor)
    const key = `${this.#digest} ${form} ${from}`
    let page = pages.get(key)
    if (!page) pages.set(key, (page = await this.#pageFrom(from, form)))
    const { bytes, to } = page
    return { bytes, ...(to < this.#tools.length && { nextCursor: this.#encode(to) }) }
  }

  async #pageFrom(from: number, form: NameForm): Promise<Page> {
    const names = form === 'safe' ? this.#safeNames.bySlug : undefined
    const entries: string[] = []
    for (let size = 0; entries.length < PAGE && size < PAGE_BYTES;) {
      const tool = this.#tools[from + entries.length]
      if (!tool) break
      const text = await textOf(tool, names?.get(tool.name) ?? tool.name)
      entries.push(text)
      size += text.length
    }
    return { bytes: Buffer.from(entries.join(',')), to: from + entries.length }
  }

  get #safeNames() {
    return (this.#safe ??= this.#nameSafely())
  }

  #nameSafely() {
    const bySlug = safeNames(this.#tools.map(({ name }) => name))
    const byName = new Map(this.#tools.map((tool) => [bySlug.get(tool.name) ?? tool.name, tool]))
    return { bySlug, byName }
  }

  #encode(offset: number): string {
    return Buffer.from(`${this.#digest}.${offset}`).toString('base64url')
  }

  #decode(cursor: string): number {
    const [digest, offset] = Buffer.from(cursor, 'base64url').toString().split('.')
    const from = Number(offset)
    if (digest === this.#digest && Number.isInteger(from) && from >= 0) return from
    throw new ProtocolError(
      ProtocolErrorCode.InvalidParams,
      'this cursor belongs to a list of tools that has changed since; list them again without a cursor',
    )
  }
}

/** The JSON of tools, each with the name that it was last listed under, which rarely changes. */
const texts = new LRUCache<ListedTool, { name: string; text: string }>({
  maxSize: 32 * 1024 * 1024,
  maxEntrySize: 128 * 1024,
  sizeCalculation: ({ text }) => text.length,
})

async function textOf(tool: ListedTool, name: string): Promise<string> {
  const known = texts.get(tool)
  if (known?.name === name) return known.text
  const text = JSON.stringify(entryOf(tool.name, name, 'describe' in tool ? await tool.describe() : tool))
  texts.set(tool, { name, text })
  return text
}

/** Returns a tool as the protocol lists it. */
function entryOf(slug: string, name: string, shown: ToolDescription): object {
  const { title, description, inputSchema, outputSchema, annotations, meta } = shown
  const isAlias = name !== slug
  return {
    name,
    title,
    description,
    inputSchema,
    ...(outputSchema && { outputSchema }),
    annotations,
    ...((meta ?? isAlias) && { _meta: { ...meta, ...(isAlias && { 'hearth/slug': slug }) } }),
  }
}

const digestOf = (tools: readonly Tool[]): string =>
  createHash('sha256')
    .update(JSON.stringify(tools.map((tool) => entryOf(tool.name, tool.name, tool))))
    .digest('base64url')
