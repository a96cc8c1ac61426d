import type { Kysely } from 'kysely'
import type { StoredEntry } from '../../db/repositories/memory/entries.ts'
import type { Database } from '../../db/tables.ts'

/** A text that is to be remembered. */
export interface NewMemory {
  text: string
  source: string
  createdAt?: Date | undefined
  /** The entry that this one replaces. */
  supersedes?: string | undefined
}

/** The memory for one request to a language model. It never fails the request: what goes wrong is recorded instead. */
export interface RequestMemory {
  /** True if the last request that `addTo` returned holds memory. */
  readonly isGiven: boolean
  /** Returns the request with the memory that its key may read now; as it came where there is none. */
  addTo(json: Buffer): Promise<Buffer>
  /** Records that the model refused the request with its memory; further attempts go without. */
  refused(): void
}

/** A request as admission knows it. */
export interface MemoryRequest {
  readonly endpoint: { readonly task_type: string }
  readonly accountId: string
  readonly keyId?: string | undefined
  readonly taskId: string
}

/** The memory of accounts, for requests of their keys. Where the setting is off there is none, at no cost. */
export interface Memory {
  /** Returns the memory for a request that is about to run; undefined when its key may read none. */
  forRequest(request: MemoryRequest): RequestMemory | undefined
  /** Attaches the newest snapshot to a task that runs later, in the transaction that writes the task. */
  attach(trx: Kysely<Database>, request: MemoryRequest): Promise<void>
  /** Returns the memory that was attached to a task; undefined when there is none. */
  ofTask(taskId: string): Promise<RequestMemory | undefined>
  /** Recalls entries for a key, the nearest first or else the newest; none without a grant. */
  recall(
    reader: { accountId: string; keyId: string },
    search: { query: string; limit: number },
  ): Promise<{ entries: StoredEntry[]; orderedBy: 'nearness' | 'recency' }>
  /** Returns the key of the model of embeddings; undefined where none is set. */
  modelKey(): Promise<string | undefined>
  /** Returns what a key was granted, as this gateway knows it; an operation checks the grant itself. */
  accessOf(reader: { accountId: string; keyId: string }): { mayRead: boolean; mayWrite: boolean }
  /** Calls the listener when the grants of an account have changed. */
  onAccessChange(listener: (accountId: string) => void): void
  /** Begins to embed entries that were added. */
  changed(): void
  /** Reads the grants anew; resolves when this gateway knows them. */
  refresh(): Promise<void>
}
