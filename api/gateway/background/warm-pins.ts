import type { Kysely } from 'kysely'
import * as nodeLoadRepository from '../../../db/repositories/nodes/loads.ts'
import * as modelOrderRepository from '../../../db/repositories/nodes/model-orders.ts'
import * as warmPinRepository from '../../../db/repositories/nodes/warm-pins.ts'
import * as workflowStartRepository from '../../../db/repositories/platform/workflow-starts.ts'
import type { Database } from '../../../db/tables.ts'
import { type PinPlan, planPins } from '../../../domain/placement/warm-pins.ts'
import { BackgroundLoop } from '../../../platform/async/background-loop.ts'
import type { Logger } from '../../../platform/log.ts'
import { modelLoadStart } from '../../../workflows/contract/starts.ts'
import { emit } from '../../events.ts'

export interface WarmPinsOptions {
  db: Kysely<Database>
  outbox: { poke(): void }
  log: Logger
}

const EVERY_MS = 2_000

/**
 * Pins models that operators want warm on the required number of nodes. Every gateway checks, and one plans at
 * a time. Nodes get their pins over their links and load missing models; the enqueued `modelLoad` workflow
 * shows a load to operators.
 */
export class WarmPins implements AsyncDisposable {
  readonly #options: WarmPinsOptions
  readonly #loop: BackgroundLoop

  constructor(options: WarmPinsOptions) {
    this.#options = options
    this.#loop = new BackgroundLoop(() => this.#refresh(), {
      everyMs: EVERY_MS,
      onError: (err) => emit(options.log, 'model.pins_failed', { err }),
    }).start()
  }

  /** Plans by the current state and applies the plan; undefined when another gateway is planning and `wait` is false. */
  async keep({ wait }: { wait: boolean }): Promise<PinPlan | undefined> {
    const { db, outbox } = this.#options
    const now = new Date()
    const plan = await db.transaction().execute(async (trx) => {
      if (!(await warmPinRepository.lockWarmPins(trx, { wait }))) return undefined
      const decided = await this.#plan(trx, now)
      await warmPinRepository.applyPinPlan(trx, decided, now)
      for (const { model_key: modelKey, node_id: nodeId } of decided.add) {
        await modelOrderRepository.orderModel(trx, { nodeId, modelKey })
        await workflowStartRepository.enqueueWorkflow(trx, modelLoadStart({ modelKey, nodeId }))
      }
      return decided
    })
    if (plan && plan.add.length > 0) outbox.poke()
    return plan
  }

  /** Returns the plan for the current state without applying it. */
  preview(): Promise<PinPlan> {
    return this.#plan(this.#options.db, new Date())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]()
  }

  async #refresh(): Promise<void> {
    const { db, log } = this.#options
    const [wants, pins] = await Promise.all([
      warmPinRepository.listWarmWants(db),
      warmPinRepository.listWarmPins(db),
    ])
    if (wants.length === 0 && pins.length === 0) return
    const plan = await this.keep({ wait: false })
    if (plan && plan.add.length + plan.drop.length > 0) {
      emit(log, 'model.pins_planned', { add: plan.add, drop: plan.drop })
    }
  }

  async #plan(db: Kysely<Database>, now: Date): Promise<PinPlan> {
    const [wants, pins, snapshots] = [
      await warmPinRepository.listWarmWants(db),
      await warmPinRepository.listWarmPins(db),
      await nodeLoadRepository.readSnapshots(db),
    ]
    return planPins({ wants, pins, snapshots, now, random: Math.random })
  }
}
