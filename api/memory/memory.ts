import type { Kysely } from 'kysely'
import type { StoredEntry } from '../../db/repositories/memory/entries.ts'
import type { Database } from '../../db/tables.ts'

/** Text to remember. */
export interface NewMemory {
  text: string
  source: string
  createdAt?: Date | undefined
  /** The entry that this one replaces. */
  supersedes?: string | undefined
}

/** The memory for one request to a language model. Errors are recorded but never fail the request. */
export interface RequestMemory {
  /** True if the last request that `addTo` returned contains memory. */
  readonly isGiven: boolean
  /** Returns the request with the memory that its key may read now; unchanged if there is none. */
  addTo(json: Buffer): Promise<Buffer>
  /** Records that the model rejected the request with its memory; further attempts run without it. */
  refused(): void
}

/** The facts about a request that admission knows. */
export interface MemoryRequest {
  readonly endpoint: { readonly task_type: string }
  readonly accountId: string
  readonly keyId?: string | undefined
  readonly taskId: string
}

/** Accounts' memory, for requests with their keys. Empty, at no cost, if the setting is off. */
export interface Memory {
  /** Returns the memory for a request that is about to run; undefined if its key may not read any. */
  forRequest(request: MemoryRequest): RequestMemory | undefined
  /** Attaches the newest snapshot to a task that runs later, in the transaction that writes the task. */
  attach(trx: Kysely<Database>, request: MemoryRequest): Promise<void>
  /** Returns the memory attached to a task; undefined if there is none. */
  ofTask(taskId: string): Promise<RequestMemory | undefined>
  /** Recalls entries for a key: nearest first, or newest first if they can't be ranked. Empty without a grant. */
  recall(
    reader: { accountId: string; keyId: string },
    search: { query: string; limit: number },
  ): Promise<{ entries: StoredEntry[]; orderedBy: 'nearness' | 'recency' }>
  /** Returns the embedding model's key; undefined if none is configured. */
  modelKey(): Promise<string | undefined>
  /** Returns a key's grants as this gateway knows them; operations check the grant in the database themselves. */
  accessOf(reader: { accountId: string; keyId: string }): { mayRead: boolean; mayWrite: boolean }
  /** Calls the listener when an account's grants have changed. */
  onAccessChange(listener: (accountId: string) => void): void
  /** Starts embedding newly added entries. */
  changed(): void
  /** Reads the grants again; resolves once this gateway knows them. */
  refresh(): Promise<void>
}
