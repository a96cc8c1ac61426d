import type { Kysely } from 'kysely'
import { LRUCache } from 'lru-cache'
import type { CacheWatch } from '../../db/cache-watch.ts'
import * as nodePermissionRepository from '../../db/repositories/nodes/permissions.ts'
import type { NodePermissions } from '../../db/repositories/nodes/permissions.ts'
import type { Database } from '../../db/tables.ts'
import type { Logger } from '../../platform/log.ts'
import { emit } from './events.ts'

const MAX_CACHED = 10_000
/** The minimum interval between two reads of the row of a node that polls a forbidden queue. */
const REFRESH_INTERVAL_MS = 500

/**
 * Caches the status of nodes, so that polls cost no query. A node's changes arrive by NOTIFY, or at the latest with
 * the watch's own poll; one query then reloads all cached nodes.
 */
export class NodePermissionCache {
  readonly #db: Kysely<Database>
  readonly #watch: Pick<CacheWatch, 'on' | 'isFresh'>
  readonly #log: Logger
  readonly #cached = new LRUCache<string, NodePermissions>({ max: MAX_CACHED })
  readonly #refreshes = new Map<string, { at: number; refresh: Promise<NodePermissions | undefined> }>()
  readonly #listeners = new Set<() => void>()
  #isReading = false
  #isOutdated = false

  constructor(db: Kysely<Database>, watch: Pick<CacheWatch, 'on' | 'isFresh'>, log: Logger) {
    this.#db = db
    this.#watch = watch
    this.#log = log
    watch.on('node', () => this.#refreshAll())
  }

  /** True while notifications about nodes arrive. */
  get isFresh(): boolean {
    return this.#watch.isFresh()
  }

  /** Returns the cached status of a node, without a query. */
  cached(nodeId: string): NodePermissions | undefined {
    return this.#cached.get(nodeId)
  }

  /** Reads the status of a node, unless it was read just now. */
  refresh(nodeId: string): Promise<NodePermissions | undefined> {
    const last = this.#refreshes.get(nodeId)
    if (last && performance.now() - last.at < REFRESH_INTERVAL_MS) return last.refresh
    for (const [id, { at }] of this.#refreshes) {
      if (performance.now() - at < REFRESH_INTERVAL_MS) break
      this.#refreshes.delete(id)
    }
    const refresh = this.#read([nodeId]).then(() => this.#cached.get(nodeId))
    refresh.catch(() => this.#refreshes.delete(nodeId))
    this.#refreshes.delete(nodeId)
    this.#refreshes.set(nodeId, { at: performance.now(), refresh })
    return refresh
  }

  /** Registers a callback for possible changes; returns a function that removes it. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Runs one query at a time; a change during a query triggers another one. */
  #refreshAll(): void {
    this.#isOutdated = true
    if (!this.#isReading) void this.#readUntilCurrent()
  }

  async #readUntilCurrent(): Promise<void> {
    this.#isReading = true
    while (this.#isOutdated) {
      this.#isOutdated = false
      try {
        await this.#read([...this.#cached.keys()])
        for (const listener of this.#listeners) listener()
      } catch (err) {
        emit(this.#log, 'gate.permissions_failed', { err })
        this.#isOutdated = true
        await new Promise((resolve) => setTimeout(resolve, REFRESH_INTERVAL_MS))
      }
    }
    // This must run in the same tick as the last check, so that every later change triggers a new query.
    this.#isReading = false
  }

  async #read(nodeIds: readonly string[]): Promise<void> {
    if (nodeIds.length === 0) return
    for (const permission of await nodePermissionRepository.listNodePermissions(this.#db, nodeIds))
      this.#cached.set(permission.id, permission)
  }
}
