import type { Kysely } from 'kysely'
import * as memoryEntryRepository from '../../db/repositories/memory/entries.ts'
import type { StoredEntry } from '../../db/repositories/memory/entries.ts'
import * as taskMemoryRepository from '../../db/repositories/memory/task-memory.ts'
import type { MemoryReader } from '../../db/repositories/memory/task-memory.ts'
import type { Database } from '../../db/tables.ts'
import { isChatCapable } from '../../domain/chat/chat.ts'
import { byNearness } from '../../domain/memory/nearest.ts'
import type { Embeddings } from './embeddings.ts'
import { GrantedMemory, type GrantedMemoryDeps } from './granted-memory.ts'
import type { MemoryRegistry } from './memory-registry.ts'
import type { Memory, MemoryRequest, RequestMemory } from './memory.ts'
import type { MemoryUpkeep } from './upkeep.ts'

/** Search for more entries than we return, because some may have been deleted in the meantime. */
const RECALL_FACTOR = 2

/** The dependencies of the memory that requests use. */
export interface GatewayMemoryDeps extends GrantedMemoryDeps {
  readonly known: Pick<MemoryRegistry, 'find' | 'during' | 'onAccessChange' | 'refresh'>
  readonly upkeep: Pick<MemoryUpkeep, 'poke'>
  readonly embeddings: Pick<Embeddings, 'modelKey'>
}

/** The memory of accounts in this gateway's database; empty without dependencies. */
export class GatewayMemory implements Memory {
  readonly #deps: GatewayMemoryDeps | undefined

  constructor(deps: GatewayMemoryDeps | undefined) {
    this.#deps = deps
  }

  forRequest(request: MemoryRequest): RequestMemory | undefined {
    const reader = this.#readerOf(request)
    return reader && this.#deps && new GrantedMemory(this.#deps, reader)
  }

  async attach(trx: Kysely<Database>, request: MemoryRequest): Promise<void> {
    const reader = this.#readerOf(request)
    if (reader) await taskMemoryRepository.attachMemory(trx, reader)
  }

  async ofTask(taskId: string): Promise<RequestMemory | undefined> {
    if (!this.#deps) return undefined
    const row = await taskMemoryRepository.findTaskMemory(this.#deps.db, taskId)
    if (!row || row.snapshot_id === null || row.outcome === 'refused') return undefined
    const reader = { taskId, accountId: row.account_id, keyId: row.api_key_id }
    return new GrantedMemory(this.#deps, reader, row.snapshot_id)
  }

  async recall(
    { accountId, keyId }: { accountId: string; keyId: string },
    { query, limit }: { query: string; limit: number },
  ): Promise<{ entries: StoredEntry[]; orderedBy: 'nearness' | 'recency' }> {
    if (!this.#deps) return { entries: [], orderedBy: 'recency' }
    const { db, known, nearness } = this.#deps
    const view = known.find(accountId)
    const found = view && (await nearness.find(accountId, view, query, RECALL_FACTOR * limit))
    const reader = { accountId, keyId }
    if (!found) {
      const newest = memoryEntryRepository.recallEntries(db, { ...reader, limit })
      return { entries: await known.during(newest), orderedBy: 'recency' }
    }
    const options = { ...reader, limit: found.length, ids: found }
    const entries = await known.during(memoryEntryRepository.recallEntries(db, options))
    return { entries: byNearness(entries, found).slice(0, limit), orderedBy: 'nearness' }
  }

  async modelKey(): Promise<string | undefined> {
    return this.#deps?.embeddings.modelKey()
  }

  accessOf({ accountId, keyId }: { accountId: string; keyId: string }) {
    const view = this.#deps?.known.find(accountId)
    return { mayRead: view?.readers.has(keyId) ?? false, mayWrite: view?.writers.has(keyId) ?? false }
  }

  onAccessChange(listener: (accountId: string) => void): void {
    this.#deps?.known.onAccessChange(listener)
  }

  changed(): void {
    this.#deps?.upkeep.poke()
  }

  async refresh(): Promise<void> {
    await this.#deps?.known.refresh()
  }

  #readerOf({ endpoint, accountId, keyId, taskId }: MemoryRequest): MemoryReader | undefined {
    if (keyId === undefined || !this.#deps?.known.find(accountId)?.readers.has(keyId)) return undefined
    return isChatCapable(endpoint.task_type) ? { taskId, accountId, keyId } : undefined
  }
}
