import type { StoredEntry } from '../../db/repositories/memory/entries.ts'
import type { NamespaceView } from '../../db/repositories/memory/namespaces.ts'
import { memoryStatus } from '../../domain/memory/status.ts'
import type { MemoryEntry, MemoryStatus } from '../../schemas/memory.ts'
import type { Services } from '../services.ts'

/** Decrypts an entry for its account. */
export const presentEntry = (
  { secretBox }: Pick<Services, 'secretBox'>,
  { id, sealed, source, created_at, superseded_by }: StoredEntry,
): MemoryEntry => ({
  entry_id: id,
  text: secretBox.open(sealed, `memory_entry/${id}`).toString(),
  source,
  created_at: created_at.toISOString(),
  superseded_by,
})

/** Returns the status of an account's memory; pass `undefined` if the account has no namespace. */
export const presentStatus = (
  { now }: Pick<Services, 'now'>,
  view: NamespaceView | undefined,
): MemoryStatus =>
  memoryStatus(
    view && {
      enabled: view.namespace.enabled,
      hasSnapshot: view.namespace.snapshot_id !== null,
      isBuilding: view.isBuilding,
      since: view.namespace.created_at,
    },
    now(),
  )
