import type { Insertable, Selectable } from 'kysely'
import type { CatalogTool } from '../../schemas/catalog-tool.ts'
import type { WithDefault, Json, Optional } from './columns.ts'

/** The version of an endpoint's tool manifest, which the next version is compared with. */
export interface ToolVersionTable {
  endpoint_id: string
  version: string
  /** SHA-256 of the manifest without its version. */
  digest: Buffer
  /** The version of the rules by which the manifest was built. */
  format: number
  input_schema: Json<Record<string, unknown>>
  output_schema: Json<Record<string, unknown>>
  updated_at: WithDefault<Date>
}

/** An endpoint that changed with a version of the `endpoint` cache. */
export interface EndpointChangeTable {
  version: number
  endpoint_id: string
  changed_at: WithDefault<Date>
}

/** A tool that the platform offers; it is called through its endpoint. */
export interface ToolTable {
  slug: string
  origin: 'catalog' | 'operator'
  definition: Json<CatalogTool>
  endpoint_id: string
  removed_at: Optional<Date>
  updated_at: WithDefault<Date>
}
export type ToolRow = Selectable<ToolTable>
export type NewTool = Insertable<ToolTable>

export interface ToolTables {
  tool: ToolTable
  tool_version: ToolVersionTable
  endpoint_change: EndpointChangeTable
}
