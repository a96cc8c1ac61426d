import { hash } from 'node:crypto'
import type { Kysely } from 'kysely'
import * as toolSourceRepository from '../../db/repositories/tools/sources.ts'
import type { SourcePage, ToolSourceRow } from '../../db/repositories/tools/sources.ts'
import type { Database } from '../../db/tables.ts'
import { accessTo, isAnswering } from '../../domain/endpoint.ts'
import { describeTool } from '../../domain/tools/manifest.ts'
import type { ToolManifest } from '../../schemas/tool.ts'
import { ToolTexts } from './tool-texts.ts'
import { type VersionedSource, withVersions } from './tool-versions.ts'
import { type ToolOrigin, Tool, textOf } from './tool.ts'

/** The maximum number of endpoints per page; the gateway serves other requests between pages. */
const MAX_PAGE_SIZE = 100
/** The target size of the manifests on one page, in bytes; a single schema may be a megabyte. */
const PAGE_BYTES = 4 * 1024 * 1024
const FIRST_PAGE_SIZE = 5
const PAGE_GROWTH = 4

export interface ToolReaderOptions {
  db: Kysely<Database>
  /** US dollars per credit. */
  creditUsd: number
  /** The URL of the model hub. */
  hub: string | undefined
}

/** An endpoint's tool as its owner and as everyone else sees it; undefined where it isn't a tool. */
export interface ReadTool {
  endpointId: string
  accountId: string
  own: Tool | undefined
  public: Tool | undefined
}

/** Reads tools from the database. */
export class ToolReader {
  readonly #options: ToolReaderOptions
  /** The texts of the tools that this reader has read. */
  readonly texts = new ToolTexts((tools) => this.#readTexts(tools))

  constructor(options: ToolReaderOptions) {
    this.#options = options
  }

  async own(accountId: string): Promise<Tool[]> {
    const { db } = this.#options
    return this.#all('own', (page) => toolSourceRepository.readOwnTools(db, accountId, page))
  }

  async publics(): Promise<Tool[]> {
    return this.#all('public', (page) => toolSourceRepository.readPublicTools(this.#options.db, page))
  }

  /** Reads endpoints by id. */
  async byId(ids: readonly string[]): Promise<ReadTool[]> {
    const tools: ReadTool[] = []
    const page = new PageSize()
    for (let at = 0; at < ids.length;) {
      const next = ids.slice(at, at + page.size)
      at += next.length
      const rows = await toolSourceRepository.readTools(this.#options.db, next)
      for (const row of rows) if (!takesRequests(row)) tools.push(withoutTool(row))
      const versioned = await this.#versioned(rows.filter(takesRequests))
      const read = versioned.map((each) => this.#read(each))
      tools.push(...read)
      page.note(
        next.length,
        read.reduce((sum, { own }) => sum + (own?.bytes ?? 0), 0),
      )
    }
    return tools
  }

  async #all(
    side: ToolOrigin['side'],
    read: (page: SourcePage) => Promise<ToolSourceRow[]>,
  ): Promise<Tool[]> {
    const tools: Tool[] = []
    const page = new PageSize()
    for (let after: string | undefined; ;) {
      const limit = page.size
      const rows = await read({ after, limit })
      const made = (await this.#versioned(rows)).map((versioned) => this.#tool(versioned, side))
      tools.push(...made)
      if (rows.length < limit) return tools
      after = rows.at(-1)?.id
      page.note(
        rows.length,
        made.reduce((sum, { bytes }) => sum + bytes, 0),
      )
    }
  }

  #read(versioned: VersionedSource): ReadTool {
    const { id, account_id } = versioned.source
    return {
      endpointId: id,
      accountId: account_id,
      own: this.#tool(versioned, 'own'),
      public: accessTo(versioned.source, '') === 'use' ? this.#tool(versioned, 'public') : undefined,
    }
  }

  #tool(versioned: VersionedSource, side: ToolOrigin['side']): Tool {
    const manifest = this.#manifest(versioned, side)
    const text = textOf(manifest)
    const tool = new Tool(manifest, { endpointId: versioned.source.id, side }, text)
    this.texts.hold(tool, text)
    return tool
  }

  #manifest({ source, version }: VersionedSource, side: ToolOrigin['side']): ToolManifest {
    const { name, displayName, ...rest } = this.#describe(source, side === 'own')
    return { name, displayName, version, ...rest }
  }

  async #readTexts(tools: readonly Tool[]): Promise<ReadonlyMap<Tool, Buffer>> {
    const ids = tools.flatMap(({ origin }) => origin?.endpointId ?? [])
    const rows = await toolSourceRepository.readTools(this.#options.db, ids)
    const sources = new Map(rows.map((row) => [row.id, row]))
    const texts = new Map<Tool, Buffer>()
    for (const tool of tools) {
      const { endpointId = '', side = 'own' } = tool.origin ?? {}
      const source = sources.get(endpointId)
      if (!source || source.version !== tool.version) continue
      const text = textOf(this.#manifest({ source, version: tool.version }, side))
      if (hash('sha256', text, 'buffer').equals(tool.digest)) texts.set(tool, text)
    }
    return texts
  }

  #versioned(rows: readonly ToolSourceRow[]): Promise<VersionedSource[]> {
    return withVersions(this.#options.db, rows, (source) => this.#describe(source, true))
  }

  #describe(source: ToolSourceRow, isOwner: boolean) {
    const { creditUsd, hub } = this.#options
    return describeTool(source, { isOwner, creditUsd, hub })
  }
}

/** Returns whether accounts with access to an endpoint may call it now. */
const takesRequests = ({ deleted_at, status, lifecycle_status, unusable }: ToolSourceRow): boolean =>
  deleted_at === null && isAnswering(status) && lifecycle_status !== 'disabled' && unusable === null

const withoutTool = ({ id, account_id }: ToolSourceRow): ReadTool => ({
  endpointId: id,
  accountId: account_id,
  own: undefined,
  public: undefined,
})

/** Computes how many endpoints to read next from the size of the previous ones. */
class PageSize {
  #size = FIRST_PAGE_SIZE

  get size(): number {
    return this.#size
  }

  /** Records the number of endpoints read and the bytes of their manifests. */
  note(endpoints: number, bytes: number): void {
    const fitting = Math.floor((PAGE_BYTES * endpoints) / Math.max(1, bytes))
    this.#size = Math.max(1, Math.min(MAX_PAGE_SIZE, this.#size * PAGE_GROWTH, fitting))
  }
}
