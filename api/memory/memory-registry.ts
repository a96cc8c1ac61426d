import { setTimeout as sleep } from 'node:timers/promises'
import type { Kysely } from 'kysely'
import type { CacheWatch } from '../../db/cache-watch.ts'
import * as memoryAcknowledgementRepository from '../../db/repositories/memory/acknowledgements.ts'
import * as memoryGrantRepository from '../../db/repositories/memory/grants.ts'
import type { Database } from '../../db/tables.ts'
import { BackgroundLoop } from '../../platform/async/background-loop.ts'
import type { Logger } from '../../platform/log.ts'
import { emit } from '../events.ts'

/** An account's memory, which at least one key may read or write. */
export interface AccountMemoryView {
  readonly namespaceId: string
  readonly readers: ReadonlySet<string>
  readonly writers: ReadonlySet<string>
}

const POLL_INTERVAL_MS = 5_000
/** Reads that started before a grant changed end well within this time; a revocation doesn't wait longer. */
const MAX_READ_MS = 2_000
const NOBODY: ReadonlyMap<string, AccountMemoryView> = new Map()

export interface MemoryRegistryOptions {
  db: Kysely<Database>
  watch: Pick<CacheWatch, 'on'>
  log: Logger
  gatewayId: string
}

/**
 * This gateway's view of the accounts with memory and the keys with a grant. It decides which requests try to read
 * memory at all, so all others cost nothing; the read itself checks the grant in the database. A change is acknowledged
 * once all reads that started before it have ended.
 */
export class MemoryRegistry implements AsyncDisposable {
  readonly #options: MemoryRegistryOptions
  readonly #loop: BackgroundLoop
  readonly #reads = new Set<Promise<unknown>>()
  readonly #listeners: ((accountId: string) => void)[] = []
  #accounts = NOBODY

  constructor(options: MemoryRegistryOptions) {
    this.#options = options
    this.#loop = new BackgroundLoop(() => this.#refresh(), {
      everyMs: POLL_INTERVAL_MS,
      onError: (err) => emit(options.log, 'memory.refresh_failed', { err }),
    })
    options.watch.on('memory', () => void this.#loop.run())
  }

  /** Resolves once the current grants are known. */
  refresh(): Promise<void> {
    return this.#loop.run()
  }

  find(accountId: string): AccountMemoryView | undefined {
    return this.#accounts.get(accountId)
  }

  /** Counts a read until its result has been passed on; grant changes are acknowledged only after that. */
  during<T>(read: Promise<T>): Promise<T> {
    // The caller passes the result on in the same turn of the event loop.
    const over = read.then(nextTurn, nextTurn)
    this.#reads.add(over)
    void over.then(() => this.#reads.delete(over))
    return read
  }

  /** Calls the listener when an account's grants have changed. */
  onAccessChange(listener: (accountId: string) => void): void {
    this.#listeners.push(listener)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]()
  }

  async #refresh(): Promise<void> {
    const { db, gatewayId } = this.#options
    // Read the version first, so the next refresh acknowledges a change between the two reads.
    const version = await memoryAcknowledgementRepository.readMemoryVersion(db)
    const rows = await memoryGrantRepository.listKnownMemory(db)
    const before = this.#accounts
    this.#accounts = new Map(
      rows.map((row) => [
        row.account_id,
        {
          namespaceId: row.namespace_id,
          readers: new Set(row.readers),
          writers: new Set(row.writers),
        },
      ]),
    )
    this.#tellChanges(before)
    if (this.#reads.size > 0) {
      const late = sleep(MAX_READ_MS, undefined, { ref: false })
      await Promise.race([Promise.all(this.#reads), late])
    }
    await memoryAcknowledgementRepository.acknowledgeMemory(db, gatewayId, version)
  }

  #tellChanges(before: ReadonlyMap<string, AccountMemoryView>): void {
    for (const accountId of new Set([...before.keys(), ...this.#accounts.keys()])) {
      if (accessIn(before.get(accountId)) === accessIn(this.#accounts.get(accountId))) continue
      for (const listener of this.#listeners) listener(accountId)
    }
  }
}

const accessIn = (view: AccountMemoryView | undefined): string =>
  view ? `${[...view.readers].toSorted().join()};${[...view.writers].toSorted().join()}` : ''

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
