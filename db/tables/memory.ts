import type { Generated, Insertable, Selectable } from 'kysely'
import type { MemoryAccess, MemoryOutcome, MemoryReason } from '../../schemas/memory.ts'
import type { WithDefault, Optional } from './columns.ts'

export interface MemoryNamespaceTable {
  id: string
  account_id: string
  enabled: WithDefault<boolean>
  /** The newest snapshot that is ready. */
  snapshot_id: Optional<string>
  /** The number of snapshots that were requested. */
  builds: WithDefault<number>
  /** The number of the snapshot that was requested and has not frozen its entries yet. */
  wanted_build: Optional<number>
  wanted_at: Optional<Date>
  created_at: WithDefault<Date>
}
export type MemoryNamespaceRow = Selectable<MemoryNamespaceTable>

export interface MemoryEntryTable {
  id: string
  namespace_id: string
  account_id: string
  /** Increases in commit order within a namespace. */
  version: Generated<number>
  /** The encrypted text. */
  sealed: Buffer
  /** The estimated number of tokens of the text. */
  tokens: number
  source: string
  /** The key that wrote the entry; null for an operator's import. */
  api_key_id: Optional<string>
  created_at: WithDefault<Date>
  superseded_by: Optional<string>
  /** A gateway embeds the entry until this time. */
  embed_until: Optional<Date>
  /** The model of its newest vector. */
  embedded_with: Optional<string>
}
export type MemoryEntryRow = Selectable<MemoryEntryTable>
export type NewMemoryEntry = Insertable<MemoryEntryTable>

export interface MemoryEmbeddingTable {
  entry_id: string
  namespace_id: string
  model_key: string
  /** Increases in commit order within a namespace. */
  stored: Generated<number>
  /** The encrypted vector: unit length, four bytes per number, little-endian. */
  sealed: Optional<Buffer>
  /** The unencrypted vector that older versions write, until it is encrypted. */
  vector: Optional<Buffer>
}

export interface MemorySnapshotTable {
  id: string
  namespace_id: string
  account_id: string
  build: number
  status: 'building' | 'ready'
  /** The snapshot holds the entries up to this version. */
  version: number
  entries: number
  /** The model of the vectors; null for a snapshot that is read newest first. */
  model_key: Optional<string>
  created_at: WithDefault<Date>
  ready_at: Optional<Date>
}
export type MemorySnapshotRow = Selectable<MemorySnapshotTable>

export interface MemoryGrantTable {
  id: string
  namespace_id: string
  account_id: string
  api_key_id: string
  access: MemoryAccess
  created_at: WithDefault<Date>
  revoked_at: Optional<Date>
}
export type MemoryGrantRow = Selectable<MemoryGrantTable>

/** The memory of a task. It has no foreign keys, because it outlives the snapshot and the namespace. */
export interface TaskMemoryTable {
  task_id: string
  account_id: string
  api_key_id: string
  namespace_id: string
  snapshot_id: Optional<string>
  outcome: MemoryOutcome
  /** The reason why it was denied or unavailable; null otherwise. */
  reason: Optional<MemoryReason>
  created_at: WithDefault<Date>
  decided_at: Optional<Date>
}
export type TaskMemoryRow = Selectable<TaskMemoryTable>

export interface MemoryTables {
  memory_namespace: MemoryNamespaceTable
  memory_entry: MemoryEntryTable
  memory_embedding: MemoryEmbeddingTable
  memory_snapshot: MemorySnapshotTable
  memory_grant: MemoryGrantTable
  task_memory: TaskMemoryTable
}
