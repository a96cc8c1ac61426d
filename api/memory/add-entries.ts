import type { Transaction } from 'kysely'
import * as memoryEntryRepository from '../../db/repositories/memory/entries.ts'
import type { StoredEntry } from '../../db/repositories/memory/entries.ts'
import * as memoryGrantRepository from '../../db/repositories/memory/grants.ts'
import * as memoryNamespaceRepository from '../../db/repositories/memory/namespaces.ts'
import type { Database } from '../../db/tables.ts'
import type { MemoryNamespaceRow } from '../../db/tables/memory.ts'
import { ApiError, invalid } from '../../domain/errors.ts'
import { newId } from '../../domain/ids.ts'
import { memoryTokens } from '../../domain/memory/message.ts'
import type { Services } from '../services.ts'
import type { NewMemory } from './memory.ts'
import { requestSnapshot } from './request-snapshot.ts'
import { withoutPresent } from './without-present.ts'

/** Returns the namespace if memory is enabled; throws a 409 otherwise. */
export function requireEnabled(namespace: MemoryNamespaceRow | undefined): MemoryNamespaceRow {
  if (namespace?.enabled) return namespace
  throw new ApiError('conflict', 'memory is not enabled for this account; ask an operator to enable it')
}

/** The writer of memory entries. */
export interface MemoryWriter {
  accountId: string
  /** Null for an operator's import. */
  keyId: string | null
  /** True if the key needs a grant to write. */
  needsGrant: boolean
  /** True to skip entries that the memory already has, so an import can be repeated. */
  leavesOutPresent?: boolean
}

/**
 * Writes entries to an account's memory and requests a snapshot with them, in one transaction. The transaction locks
 * the namespace and the grant, so nothing is written after memory was disabled or the grant was revoked.
 */
export async function addEntries(
  trx: Transaction<Database>,
  { secretBox, config, memory }: Pick<Services, 'secretBox' | 'config' | 'memory'>,
  { accountId, keyId, needsGrant, leavesOutPresent = false }: MemoryWriter,
  given: readonly NewMemory[],
): Promise<StoredEntry[]> {
  const modelKey = await memory.modelKey()
  await memoryNamespaceRepository.lockMemory(trx, accountId)
  const namespace = requireEnabled(await memoryNamespaceRepository.lockNamespace(trx, accountId))
  const hasGrant =
    !needsGrant ||
    (keyId !== null && (await memoryGrantRepository.hasGrant(trx, { accountId, keyId, access: 'write' })))
  if (!hasGrant)
    throw new ApiError('forbidden', 'this key has no grant to write memory; ask an operator to grant it')
  const namespaceRef = { accountId, namespaceId: namespace.id }
  const entries = leavesOutPresent ? await withoutPresent(trx, secretBox, namespaceRef, given) : given
  if (entries.length === 0) return []
  const most = config.HEARTH_MEMORY_ENTRIES
  const present = await memoryEntryRepository.countEntries(trx, namespace.id)
  if (present + entries.length > most)
    throw new ApiError('conflict', `the memory of an account has at most ${most} entries; delete some first`)

  const rows = entries.map(({ text, source, createdAt }) => {
    const id = newId()
    return {
      id,
      namespace_id: namespace.id,
      account_id: accountId,
      sealed: secretBox.seal(text, `memory_entry/${id}`),
      tokens: memoryTokens(text),
      source,
      api_key_id: keyId,
      ...(createdAt && { created_at: createdAt }),
    }
  })
  for (const [i, { supersedes: id }] of entries.entries()) {
    if (id === undefined) continue
    const superseded = { ...namespaceRef, id, by: rows[i]?.id ?? '' }
    if (!(await memoryEntryRepository.supersedeEntry(trx, superseded)))
      throw invalid(['body', 'supersedes'], 'there is no such entry, or it is already superseded')
  }
  const stored = await memoryEntryRepository.insertEntries(trx, rows)
  await requestSnapshot(trx, namespace, modelKey)
  return stored
}
