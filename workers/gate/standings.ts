import type { Kysely } from 'kysely'
import { LRUCache } from 'lru-cache'
import type { CacheWatch } from '../../db/cache-watch.ts'
import { type NodeStanding, readNodeStandings } from '../../db/repositories/nodes/standings.ts'
import type { Database } from '../../db/tables.ts'
import type { Logger } from '../../platform/log.ts'
import { emit } from './events.ts'

const MAX_KNOWN = 10_000
/** A node that asks for what it may not have is looked up anew, at most so often. */
const LOOK_MS = 500

/**
 * How nodes stand, so that no poll costs a query. A decision about any node reaches this by NOTIFY, and by the watch's own poll
 * at the latest; then all that is known is read again in one query.
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

  /** Whether decisions about nodes are being heard. */
  get isFresh(): boolean {
    return this.#watch.isFresh()
  }

  /** What is known of a node, without a look. */
  known(nodeId: string): NodeStanding | undefined {
    return this.#known.get(nodeId)
  }

  /** Reads how a node stands, unless that was just done. */
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

  /** Calls back whenever something may have been decided; gives the way to stop that. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** One look at a time; what is decided during one is read by another right after it. */
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
    // In the same turn as the last look: what is decided from here on is read anew.
    this.#isReading = false
  }

  async #read(nodeIds: readonly string[]): Promise<void> {
    if (nodeIds.length === 0) return
    for (const standing of await readNodeStandings(this.#db, nodeIds)) this.#known.set(standing.id, standing)
  }
}
