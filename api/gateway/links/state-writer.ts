import type { Kysely } from 'kysely'
import * as nodeReportRepository from '../../../db/repositories/nodes/reports.ts'
import type { Database } from '../../../db/tables.ts'
import type { NodeSnapshot } from '../../../domain/placement/node-snapshot.ts'
import { storableJson } from '../../../domain/storable-text.ts'
import type { Logger } from '../../../platform/log.ts'
import { emit } from '../../events.ts'

const INTERVAL_MS = 500
const FLUSH_DELAY_MS = 20

export interface StateWriterOptions {
  db: Kysely<Database>
  gatewayId: string
  log: Logger
  /** Called when placement may see new states. */
  onStates?: () => void
}

/** Writes node reports for placement by workers: one statement per interval, or sooner when a model changes. */
export class StateWriter implements AsyncDisposable {
  readonly #db: Kysely<Database>
  readonly #gatewayId: string
  readonly #log: Logger
  readonly #onStates: () => void
  readonly #dirty = new Map<string, NodeSnapshot>()
  readonly #gone = new Set<string>()
  #timer: NodeJS.Timeout | undefined
  #dueAt = Number.POSITIVE_INFINITY
  #writing: Promise<void> | undefined

  constructor({ db, gatewayId, log, onStates = () => {} }: StateWriterOptions) {
    this.#db = db
    this.#gatewayId = gatewayId
    this.#log = log
    this.#onStates = onStates
  }

  /** Queues a node's newest state for the next write; set `soon` if workers should see it at once. */
  note(snapshot: NodeSnapshot, { soon }: { soon: boolean }): void {
    this.#gone.delete(snapshot.node_id)
    this.#dirty.set(snapshot.node_id, snapshot)
    this.#schedule(soon ? FLUSH_DELAY_MS : INTERVAL_MS)
  }

  /** Records that a node's link has closed, unless `note` is called for it again before the next write. */
  drop(nodeId: string): void {
    this.#dirty.delete(nodeId)
    this.#gone.add(nodeId)
    this.#schedule(FLUSH_DELAY_MS)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#timer)
    this.#dirty.clear()
    this.#gone.clear()
    await this.#writing
  }

  #schedule(delay: number): void {
    const dueAt = performance.now() + delay
    if (this.#writing || dueAt >= this.#dueAt) return
    clearTimeout(this.#timer)
    this.#dueAt = dueAt
    this.#timer = setTimeout(() => {
      this.#dueAt = Number.POSITIVE_INFINITY
      this.#writing = this.#flush().finally(() => {
        this.#writing = undefined
        if (this.#dirty.size || this.#gone.size) this.#schedule(FLUSH_DELAY_MS)
      })
    }, delay)
  }

  async #flush(): Promise<void> {
    const gone = [...this.#gone]
    const states = [...this.#dirty.values()]
    this.#gone.clear()
    this.#dirty.clear()
    try {
      if (gone.length) await nodeReportRepository.dropNodeStates(this.#db, this.#gatewayId, gone)
      if (states.length === 0) return
      await nodeReportRepository.saveNodeStates(
        this.#db,
        this.#gatewayId,
        // One statement stores the reports of all nodes, so no text from a node must be able to make it fail.
        states.map((snapshot) => ({ nodeId: snapshot.node_id, snapshot: storableJson(snapshot) })),
      )
      this.#onStates()
    } catch (err) {
      emit(this.#log, 'node.states_write_failed', { err })
    }
  }
}
