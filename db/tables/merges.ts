import type { Selectable } from 'kysely'
import type { Json, Optional } from './columns.ts'

export interface MergeSourceTable {
  job_id: string
  position: number
  role: 'base' | 'adapter' | 'source'
  /** The reference as the caller sent it. */
  ref: Json<Record<string, unknown>>
  version_id: Optional<string>
  /** Null for a base. */
  weight: Optional<number>
}
export type MergeSourceRow = Selectable<MergeSourceTable>

export interface VersionSourceTable {
  version_id: string
  source_version_id: string
  role: 'base' | 'adapter' | 'source'
  weight: Optional<number>
  position: number
}
export type VersionSourceRow = Selectable<VersionSourceTable>

export interface MergeTables {
  merge_source: MergeSourceTable
  version_source: VersionSourceTable
}
