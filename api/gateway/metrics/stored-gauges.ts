import type { Kysely } from 'kysely'
import * as operationsRepository from '../../../db/repositories/platform/operator-views.ts'
import type { Database } from '../../../db/tables.ts'
import { silentSince } from '../../../domain/placement/silence.ts'
import type { OpenWork } from '../../../schemas/operations.ts'
import { CachedRead } from '../caches/cached-read.ts'

/** However many scrapers there are, a gateway reads the database at most this often. */
const TTL_MS = 15_000

interface StoredValues {
  /** The number of nodes by status. */
  nodes: Record<'online' | 'draining' | 'offline', number>
  /** The names of nodes, by id. */
  names: ReadonlyMap<string, string>
  work: readonly OpenWork[]
}

/** The values of gauges that are in the database. They are read only when they are scraped. */
export class StoredGauges {
  readonly #values: CachedRead<StoredValues>

  constructor(db: Kysely<Database>) {
    this.#values = new CachedRead(() => readValues(db), TTL_MS)
  }

  read(): Promise<StoredValues> {
    return this.#values.get()
  }
}

/** Runs the queries one after another, so that a scrape uses one connection of the pool. */
async function readValues(db: Kysely<Database>): Promise<StoredValues> {
  const { online, draining, offline } = await operationsRepository.countNodes(db, silentSince(new Date()))
  const names = await operationsRepository.listNodeNames(db)
  const work = await operationsRepository.countOpenWork(db)
  return { nodes: { online, draining, offline }, names, work }
}
