import type { Kysely, Transaction } from 'kysely'
import { outsideAccounts } from '../../../db/account-share.ts'
import * as copyRepository from '../../../db/repositories/nodes/copies.ts'
import type { StoredScale } from '../../../db/repositories/nodes/copies.ts'
import * as nodeLoadRepository from '../../../db/repositories/nodes/loads.ts'
import * as modelOrderRepository from '../../../db/repositories/nodes/model-orders.ts'
import * as warmPinRepository from '../../../db/repositories/nodes/warm-pins.ts'
import * as workflowStartRepository from '../../../db/repositories/platform/workflow-starts.ts'
import type { Database } from '../../../db/tables.ts'
import {
  type CopyDemand,
  type CopyScale,
  type CopySupply,
  decideCopies,
  NO_COPIES,
} from '../../../domain/placement/copies.ts'
import { copiesByModel, type ModelCopies, warmWantOf } from '../../../domain/placement/copy-wants.ts'
import { isLoading, type NodeSnapshot, serves, warmthOf } from '../../../domain/placement/node-snapshot.ts'
import { type PinPlan, planPins } from '../../../domain/placement/warm-pins.ts'
import { BackgroundLoop } from '../../../platform/async/background-loop.ts'
import type { Catalog } from '../../../platform/catalog.ts'
import type { Logger } from '../../../platform/log.ts'
import { modelLoadStart } from '../../../workflows/contract/starts.ts'
import { emit } from '../../events.ts'
import type { ModelLoads } from '../../inference/model-loads.ts'
import type { ModelSlots } from '../../inference/model-slots.ts'
import { CachedRead } from '../caches/cached-read.ts'
import type { Estimates } from '../caches/estimates.ts'

export interface CopyPlannerOptions {
  db: Kysely<Database>
  outbox: { poke(): void }
  log: Logger
  gatewayId: string
  /** The idle timeout, in seconds, of models that don't set one. */
  defaultIdleS: number
  catalog: Pick<Catalog, 'profile'>
  places: Pick<ModelSlots, 'takeDemand'>
  loads: Pick<ModelLoads, 'waitingByModel'>
  estimates: Pick<Estimates, 'of'>
}

const INTERVAL_MS = 2_000
const PREVIEW_TTL_MS = 1_000
/** Caps the time credited since the previous decision, which another gateway may have made. */
const MAX_ELAPSED_S = 5
const NOT_ACTIVE = 'no endpoint that reserves copies is active'

/**
 * Plans how many copies of each model are loaded and on which nodes: the minimum that its endpoints reserve and, with
 * scaling enabled, as many as its requests need. Every gateway measures and checks, but only one plans at a time. Nodes
 * get the plan over their links and load missing models. For each load, a `modelLoad` workflow is enqueued, so that
 * operators can see the load.
 */
export class CopyPlanner implements AsyncDisposable {
  readonly #options: CopyPlannerOptions
  readonly #loop: BackgroundLoop
  /** The plan in progress, and the next one, which new callers wait for. */
  #running: Promise<PinPlan | undefined> | undefined
  #next: Promise<PinPlan | undefined> | undefined
  readonly #preview = new CachedRead(() => this.#planNow(), PREVIEW_TTL_MS)

  constructor(options: CopyPlannerOptions) {
    this.#options = options
    this.#loop = new BackgroundLoop(() => this.#refresh(), {
      everyMs: INTERVAL_MS,
      onError: (err) => emit(options.log, 'model.pins_failed', { err }),
    }).start()
  }

  /**
   * Plans from the currently committed state and applies the plan. Concurrent callers share one plan, and so one
   * connection. Returns undefined if planning fails; the next round retries.
   */
  replan(): Promise<PinPlan | undefined> {
    this.#next ??= this.#afterRunning()
    return this.#next
  }

  /** Returns a plan that is at most a second old, without applying it, along with the nodes. */
  preview(): Promise<PlannedCopies> {
    return this.#preview.get()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]()
    await this.#running
  }

  async #afterRunning(): Promise<PinPlan | undefined> {
    await this.#running
    this.#next = undefined
    const running = outsideAccounts(() => this.#keep({ wait: true })).catch((err: unknown) => {
      emit(this.#options.log, 'model.pins_failed', { err })
      return undefined
    })
    this.#running = running
    return running
  }

  async #refresh(): Promise<void> {
    const { db, log } = this.#options
    const models = await this.#models(db, new Date())
    const scaled = new Set(models.filter(({ isScaled }) => isScaled).map(({ model_key }) => model_key))
    await this.#measure(scaled)
    if (models.length === 0) {
      const [pins, retiring] = await Promise.all([
        warmPinRepository.listWarmPins(db),
        warmPinRepository.listRetiring(db),
      ])
      if (pins.length + retiring.length === 0) return
    }
    const plan = await this.#keep({ wait: false, models })
    if (plan && plan.add.length + plan.drop.length + plan.retire.length > 0) {
      emit(log, 'model.pins_planned', { add: plan.add, drop: plan.drop, retire: plan.retire })
    }
  }

  /** Makes a plan and applies it; returns undefined if another gateway is planning and `wait` is false. */
  async #keep({
    wait,
    models,
  }: {
    wait: boolean
    models?: readonly ModelCopies[]
  }): Promise<PinPlan | undefined> {
    const { db, outbox } = this.#options
    // The lock blocks planning on all gateways, so do the costly reads first.
    const facts = await this.#facts(models ?? (await this.#models(db, new Date())))
    const plan = await db.transaction().execute(async (trx) => {
      if (!(await warmPinRepository.lockWarmPins(trx, { wait }))) return undefined
      // Use the database's clock, because gateways take turns planning.
      const now = await copyRepository.databaseTime(trx)
      const situation = {
        models: await this.#models(trx, now),
        snapshots: await nodeLoadRepository.readSnapshots(trx),
        now,
      }
      const scales = await this.#decide(trx, situation, facts)
      const decided = await this.#plan(trx, situation, scales)
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

  async #planNow(): Promise<PlannedCopies> {
    const { db } = this.#options
    const now = new Date()
    const [models, snapshots] = [await this.#models(db, now), await nodeLoadRepository.readSnapshots(db)]
    const scales = await copyRepository.readScales(db)
    return { snapshots, plan: await this.#plan(db, { models, snapshots, now }, scales) }
  }

  /** Stores this gateway's use of models since the last call. */
  async #measure(scaled: ReadonlySet<string>): Promise<void> {
    const { db, gatewayId, places, loads } = this.#options
    const byModel = new Map(places.takeDemand().map((demand) => [demand.modelKey, demand]))
    for (const [modelKey, waiting] of loads.waitingByModel()) {
      const { inFlight = 0, waiting: queued = 0, serviceMs = 0 } = byModel.get(modelKey) ?? {}
      byModel.set(modelKey, { modelKey, inFlight, waiting: queued + waiting, serviceMs })
    }
    const measured = [...byModel.values()].filter(({ modelKey }) => scaled.has(modelKey))
    await copyRepository.recordDemand(db, gatewayId, measured)
  }

  async #models(db: Kysely<Database>, now: Date): Promise<ModelCopies[]> {
    const { defaultIdleS } = this.#options
    return copiesByModel(await warmPinRepository.listEndpointCopies(db), { now, defaultIdleS })
  }

  /** Reads the demand for models with scaling enabled, and how long they take to load. */
  async #facts(models: readonly ModelCopies[]): Promise<Facts> {
    const { db, estimates } = this.#options
    const keys = models.filter(({ isScaled }) => isScaled).map(({ model_key }) => model_key)
    if (keys.length === 0) return { demands: new Map(), loadMs: () => 0 }
    const [demands, loadMs] = await Promise.all([copyRepository.readDemand(db, keys), estimates.of(keys)])
    return { demands, loadMs }
  }

  /** Decides the number of copies for models with scaling enabled, records each change, and returns all scales. */
  async #decide(
    trx: Transaction<Database>,
    { models, snapshots, now }: CopyPlanInput,
    { demands, loadMs }: Facts,
  ): Promise<ReadonlyMap<string, CopyScale>> {
    const { log } = this.#options
    const scaled = models.filter(({ isScaled }) => isScaled)
    const scales = await copyRepository.readScales(trx)
    const record = async (change: copyRepository.CopyChange) => {
      await copyRepository.recordChange(trx, change, now)
      const { modelKey: model_key, before, copies, reason } = change
      emit(log, 'model.scaled', { model_key, before, copies, reason })
    }
    const keys = new Set(scaled.map(({ model_key }) => model_key))
    const ended = [...scales.keys()].filter((modelKey) => !keys.has(modelKey))
    if (ended.length > 0) {
      for (const modelKey of await copyRepository.reservedModels(trx, ended)) {
        const { copies: before } = scales.get(modelKey) ?? NO_COPIES
        if (before > 0) await record({ modelKey, before, copies: 0, reason: NOT_ACTIVE })
      }
      await copyRepository.dropOtherScales(trx, [...keys])
    }
    const changed = new Map<string, CopyScale>()
    for (const model of scaled) {
      const { model_key: modelKey, want } = model
      const before = scales.get(modelKey) ?? NO_COPIES
      const supply = this.#supply(model, snapshots, loadMs)
      const used = demands.get(modelKey) ?? { inFlight: 0, waiting: 0, serviceMs: 0 }
      // Tasks do not pass through a gateway, so the gateways' own counts miss them.
      const demand = { ...used, inFlight: Math.max(used.inFlight, supply.inFlight) }
      const elapsedS = elapsedSince(scales.get(modelKey), now)
      const { scale, reason } = decideCopies(want, supply, { demand, before, now: now.getTime(), elapsedS })
      if (isSame(scale, before)) continue
      changed.set(modelKey, scale)
      if (reason === undefined) continue
      await record({ modelKey, before: before.copies, copies: scale.copies, reason })
    }
    await copyRepository.writeScales(trx, changed, now)
    return new Map<string, CopyScale>([...scales, ...changed])
  }

  #supply(
    { model_key, runtime_profile, account_id }: ModelCopies,
    snapshots: readonly NodeSnapshot[],
    loadMs: Facts['loadMs'],
  ): CopySupply & { inFlight: number } {
    const { catalog } = this.#options
    const held = snapshots
      .filter((node) => !node.draining && serves(node, account_id))
      .flatMap(({ models }) => models.filter((model) => model.model_key === model_key))
    const loaded = held.filter((model) => warmthOf(model) === 'warm')
    const concurrencies = loaded
      .map(({ max_concurrency }) => max_concurrency)
      .filter((most) => most !== undefined)
    const mean = concurrencies.reduce((sum, most) => sum + most, 0) / concurrencies.length
    const profiled = catalog.profile(runtime_profile)?.max_concurrency ?? 1
    return {
      loaded: loaded.filter(({ retiring }) => !retiring).length,
      loading: held.filter(isLoading).length,
      inFlight: loaded.reduce((sum, { in_flight }) => sum + in_flight, 0),
      concurrency: concurrencies.length > 0 ? mean : profiled,
      loadS: loadMs(model_key, held.length > loaded.length ? 'cached' : 'cold') / 1_000,
    }
  }

  async #plan(
    db: Kysely<Database>,
    { models, snapshots, now }: CopyPlanInput,
    scales: ReadonlyMap<string, CopyScale>,
  ): Promise<PinPlan> {
    const wants = models.map((model) => warmWantOf(model, scales.get(model.model_key)))
    const [pins, retiring] = [
      await warmPinRepository.listWarmPins(db),
      await warmPinRepository.listRetiring(db),
    ]
    return planPins({ wants, pins, retiring, snapshots, now, random: Math.random })
  }
}

/** The plan for the nodes' current state. */
export interface PlannedCopies {
  readonly plan: PinPlan
  readonly snapshots: readonly NodeSnapshot[]
}

interface Facts {
  demands: ReadonlyMap<string, CopyDemand>
  loadMs: (modelKey: string, state: 'cold' | 'cached') => number
}

interface CopyPlanInput {
  models: readonly ModelCopies[]
  snapshots: readonly NodeSnapshot[]
  now: Date
}

const elapsedSince = (scale: StoredScale | undefined, now: Date): number =>
  scale
    ? Math.max(0, Math.min(MAX_ELAPSED_S, (now.getTime() - scale.decidedAt.getTime()) / 1_000))
    : INTERVAL_MS / 1_000

const isSame = (a: CopyScale, b: CopyScale): boolean =>
  a.copies === b.copies && a.waitedS === b.waitedS && a.neededAt.every((at, i) => at === b.neededAt[i])
