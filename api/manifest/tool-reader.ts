import type { Kysely } from 'kysely'
import * as toolSourceRepository from '../../db/repositories/tools/sources.ts'
import type { SourcePage, ToolSourceRow } from '../../db/repositories/tools/sources.ts'
import type { Database } from '../../db/tables.ts'
import { accessTo } from '../../domain/endpoint.ts'
import { describeTool } from '../../domain/tools/manifest.ts'
import { type VersionedSource, withVersions } from './tool-versions.ts'
import { Tool } from './tool.ts'

/** The number of endpoints that are read at once; the gateway serves other requests in between. */
const PAGE = 100

export interface ToolReaderOptions {
  db: Kysely<Database>
  /** US dollars per credit. */
  creditUsd: number
  /** The address of the model hub. */
  hub: string | undefined
}

/** An endpoint as its owner and as everybody else sees it; undefined where it is no tool. */
export interface ReadTool {
  endpointId: string
  accountId: string
  own: Tool | undefined
  public: Tool | undefined
}

/** Reads tools from the database. */
export class ToolReader {
  readonly #options: ToolReaderOptions

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
    for (let at = 0; at < ids.length; at += PAGE) {
      const rows = await toolSourceRepository.readTools(this.#options.db, ids.slice(at, at + PAGE))
      for (const row of rows) if (!takesRequests(row)) tools.push(withoutTool(row))
      const versioned = await this.#versioned(rows.filter(takesRequests))
      for (const each of versioned) tools.push(this.#read(each))
    }
    return tools
  }

  async #all(side: 'own' | 'public', read: (page: SourcePage) => Promise<ToolSourceRow[]>): Promise<Tool[]> {
    const tools: Tool[] = []
    for (let after: string | undefined; ;) {
      const rows = await read({ after, limit: PAGE })
      for (const versioned of await this.#versioned(rows)) tools.push(this.#tool(versioned, side))
      if (rows.length < PAGE) return tools
      after = rows.at(-1)?.id
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

  #tool({ source, version }: VersionedSource, side: 'own' | 'public'): Tool {
    const { name, displayName, ...rest } = this.#describe(source, side === 'own')
    return new Tool({ name, displayName, version, ...rest }, source.id)
  }

  #versioned(rows: readonly ToolSourceRow[]): Promise<VersionedSource[]> {
    return withVersions(this.#options.db, rows, (source) => this.#describe(source, true))
  }

  #describe(source: ToolSourceRow, isOwner: boolean) {
    const { creditUsd, hub } = this.#options
    return describeTool(source, { isOwner, creditUsd, hub })
  }
}

/** Returns whether an endpoint may be called by those who have access to it. */
const takesRequests = ({ deleted_at, status, lifecycle_status, unusable }: ToolSourceRow): boolean =>
  deleted_at === null &&
  (status === 'active' || status === 'deprecated') &&
  lifecycle_status !== 'disabled' &&
  unusable === null

const withoutTool = ({ id, account_id }: ToolSourceRow): ReadTool => ({
  endpointId: id,
  accountId: account_id,
  own: undefined,
  public: undefined,
})
