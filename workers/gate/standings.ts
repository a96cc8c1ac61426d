import type { Kysely } from 'kysely'
import { LRUCache } from 'lru-cache'
import type { CacheWatch } from '../../db/cache-watch.ts'
import * as nodeStandingRepository from '../../db/repositories/nodes/standings.ts'
import type { NodeStanding } from '../../db/repositories/nodes/standings.ts'
import type { Database } from '../../db/tables.ts'
import type { Logger } from '../../platform/log.ts'
import { emit } from './events.ts'

const MAX_KNOWN = 10_000
/** The interval at which the row of a node that polls a forbidden queue is read again. */
const LOOK_MS = 500

/**
 * Caches the status of nodes, so that polls cost no query. A decision about a node arrives by NOTIFY, or at the latest
 * by the watch's own poll; then one query reads all cached nodes again.
 */
export class Standings {
  readonly #db: Kysely<Database>
  readonly #watch: Pick<CacheWatch, 'on' | 'isFresh'>
  readonly #log: Logger
  readonly #known = new LRUCache<string, NodeStanding>({ max: MAX_KNOWN })
  readonly #looks = new Map<string, { at: number; look: Promise<NodeStanding | undefined> }>()
  readonly #listeners = new Set<() => void>()
  #isReading = false
  #isOutdated = false

  constructor(db: Kysely<Database>, watch: Pick<CacheWatch, 'on' | 'isFresh'>, log: Logger) {
    this.#db = db
    this.#watch = watch
    this.#log = log
    watch.on('node', () => this.#refresh())
  }

  /** True while notifications of decisions about nodes arrive. */
  get isFresh(): boolean {
    return this.#watch.isFresh()
  }

  /** Returns the cached status of a node, without a query. */
  known(nodeId: string): NodeStanding | undefined {
    return this.#known.get(nodeId)
  }

  /** Reads the status of a node, unless it was read just now. */
  look(nodeId: string): Promise<NodeStanding | undefined> {
    const last = this.#looks.get(nodeId)
    if (last && performance.now() - last.at < LOOK_MS) return last.look
    for (const [id, { at }] of this.#looks) {
      if (performance.now() - at < LOOK_MS) break
      this.#looks.delete(id)
    }
    const look = this.#read([nodeId]).then(() => this.#known.get(nodeId))
    look.catch(() => this.#looks.delete(nodeId))
    this.#looks.delete(nodeId)
    this.#looks.set(nodeId, { at: performance.now(), look })
    return look
  }

  /** Registers a callback for possible decisions; returns a function that removes it. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Runs one query at a time; a decision during a query causes another one. */
  #refresh(): void {
    this.#isOutdated = true
    if (!this.#isReading) void this.#readAll()
  }

  async #readAll(): Promise<void> {
    this.#isReading = true
    while (this.#isOutdated) {
      this.#isOutdated = false
      try {
        await this.#read([...this.#known.keys()])
        for (const listener of this.#listeners) listener()
      } catch (err) {
        emit(this.#log, 'gate.standings_failed', { err })
        this.#isOutdated = true
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
      }
    }
    // This must be in the same turn as the last check, so that every later decision causes a new query.
    this.#isReading = false
  }

  async #read(nodeIds: readonly string[]): Promise<void> {
    if (nodeIds.length === 0) return
    for (const standing of await nodeStandingRepository.readNodeStandings(this.#db, nodeIds))
      this.#known.set(standing.id, standing)
  }
}
