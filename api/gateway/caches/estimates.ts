import type { Kysely } from 'kysely'
import * as taskEstimateRepository from '../../../db/repositories/tasks/estimates.ts'
import type { Database } from '../../../db/tables.ts'
import { estimateMs, type MeanDuration } from '../../../domain/estimates.ts'
import { CachedRead } from './cached-read.ts'

/** The maximum age of the cached samples of all models. */
const CACHE_TTL_MS = 10_000

type DurationKind = MeanDuration['what']

/**
 * Estimates how long a model takes to load or to respond: from its own samples, otherwise from similar models,
 * otherwise from its size.
 */
export class Estimates {
  readonly #db: Kysely<Database>
  /** The samples of all models. */
  readonly #measured: CachedRead<MeanDuration[]>

  constructor(db: Kysely<Database>) {
    this.#db = db
    this.#measured = new CachedRead(() => taskEstimateRepository.readMeasured(db), CACHE_TTL_MS)
  }

  /** Returns a function that maps a model to milliseconds; 0 for a model that no longer exists. */
  async of(modelKeys: readonly string[]): Promise<(modelKey: string, what: DurationKind) => number> {
    const facts = new Map(
      (await taskEstimateRepository.readModelFacts(this.#db, modelKeys)).map((one) => [one.model_key, one]),
    )
    const kin = await this.#measured.get()
    return (modelKey, what) => {
      const model = facts.get(modelKey)
      return model ? estimateMs(model, what, kin) : 0
    }
  }

  /** Estimates one load in seconds, with millisecond precision. */
  async loadS(modelKey: string, state: 'cold' | 'cached'): Promise<number> {
    return Math.round((await this.of([modelKey]))(modelKey, state)) / 1_000
  }
}
