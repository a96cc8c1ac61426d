import { createHash } from 'node:crypto'
import { ProtocolError, ProtocolErrorCode, type Tool as ToolEntry } from '@modelcontextprotocol/server'
import { safeNames } from './names.ts'
import type { Tool } from './tool.ts'

/** The form of the names in a listing. */
export type NameForm = 'slugs' | 'safe'

/** The most tools of a page. */
const PAGE = 200

/** The tools of an account at one moment. A call takes both forms of a tool's name, whichever was listed. */
export class ToolList {
  readonly #tools: readonly Tool[]
  readonly #bySlug: ReadonlyMap<string, Tool>
  /** Changes with anything that a listing shows. */
  readonly #digest: string
  #safe: { bySlug: ReadonlyMap<string, string>; byName: ReadonlyMap<string, Tool> } | undefined

  /** The digest must change with the tools; by default it is computed from them. */
  constructor(tools: readonly Tool[], digest = digestOf(tools)) {
    this.#tools = tools
    this.#bySlug = new Map(tools.map((tool) => [tool.name, tool]))
    this.#digest = digest
  }

  find(name: string): Tool | undefined {
    return this.#bySlug.get(name) ?? this.#safeNames.byName.get(name)
  }

  /** Returns one page of the listing. Throws for a cursor of another listing, whose pages would not fit together. */
  page(cursor: string | undefined, form: NameForm): { tools: ToolEntry[]; nextCursor?: string } {
    const from = cursor === undefined ? 0 : this.#decode(cursor)
    const to = from + PAGE
    const tools = this.#tools.slice(from, to).map((tool) => this.#entryOf(tool, form))
    return { tools, ...(to < this.#tools.length && { nextCursor: this.#encode(to) }) }
  }

  get #safeNames() {
    return (this.#safe ??= this.#nameSafely())
  }

  #nameSafely() {
    const bySlug = safeNames(this.#tools.map(({ name }) => name))
    const byName = new Map(this.#tools.map((tool) => [bySlug.get(tool.name) ?? tool.name, tool]))
    return { bySlug, byName }
  }

  #entryOf(tool: Tool, form: NameForm): ToolEntry {
    const entry = entryOf(tool)
    if (form === 'slugs') return entry
    const name = this.#safeNames.bySlug.get(tool.name) ?? tool.name
    return name === tool.name
      ? entry
      : { ...entry, name, _meta: { ...entry._meta, 'hearth/slug': tool.name } }
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

function entryOf({
  name,
  title,
  description,
  inputSchema,
  outputSchema,
  annotations,
  meta,
}: Tool): ToolEntry {
  return {
    name,
    title,
    description,
    inputSchema: inputSchema as ToolEntry['inputSchema'],
    ...(outputSchema && { outputSchema: outputSchema as ToolEntry['inputSchema'] }),
    annotations,
    ...(meta && { _meta: meta }),
  }
}

const digestOf = (tools: readonly Tool[]): string =>
  createHash('sha256')
    .update(JSON.stringify(tools.map(entryOf)))
    .digest('base64url')
