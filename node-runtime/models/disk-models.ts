import type { Logger } from '../../platform/log.ts'
import { emit } from '../events.ts'
import type { WeightsCache } from '../weights/cache.ts'
import { adapterKey } from '../weights/keys.ts'
import type { LoadedModel } from './loaded-model.ts'
import type { Pins } from './pins.ts'

export interface DiskModelsOptions {
  cache: Pick<WeightsCache, 'list' | 'remove'>
  pins: Pick<Pins, 'has'>
  models: ReadonlyMap<string, LoadedModel>
  /** Registers a model that is on the disk. */
  add: (modelKey: string) => void
  /** Called when the files of a model are gone. */
  onGone: (model: LoadedModel) => void
  unload: (model: LoadedModel) => Promise<void>
  log: Logger
}

/** Keeps a node's list of models in sync with its disk, and frees the files of models that the platform has deleted. */
export class DiskModels {
  readonly #options: DiskModelsOptions
  #forgetting: Promise<void> = Promise.resolve()

  constructor(options: DiskModelsOptions) {
    this.#options = options
  }

  /** Registers models that a job or an earlier run left on the disk, and records those that the quota has removed. */
  async sync(): Promise<void> {
    const { cache, models, add, onGone, unload } = this.#options
    const onDisk = new Set(await cache.list())
    for (const key of onDisk) if (!models.has(key)) add(key)
    for (const model of models.values()) {
      if (model.state !== 'evicted' || onDisk.has(model.modelKey)) continue
      if (model.sleeping) await unload(model).catch(() => {})
      if (!model.sleeping) onGone(model)
    }
  }

  /**
   * Frees the files of deleted models, one call at a time. Skips models that are pinned, loading or answering a
   * request: gateways repeat the order for as long as the node reports the model. Never throws.
   */
  forget(modelKeys: readonly string[]): Promise<void> {
    this.#forgetting = this.#forgetting.then(async () => {
      for (const key of modelKeys) await this.#forget(key)
    })
    return this.#forgetting
  }

  async #forget(modelKey: string): Promise<void> {
    const { cache, pins, models, unload, onGone, log } = this.#options
    const model = models.get(modelKey)
    if (!model || pins.has(modelKey)) return
    try {
      if (model.isEvictable) await unload(model)
      // Loads begin within one turn of the event loop, so a model that is free here can't be loading when its removal
      // begins.
      if (model.server || model.sleeping || model.loading || model.leaving) return
      await Promise.all([cache.remove(modelKey), cache.remove(adapterKey(modelKey))])
      if (model.state === 'evicted') onGone(model)
      emit(log, 'model.files_freed', { model_key: modelKey })
    } catch (err) {
      emit(log, 'model.files_not_freed', { err, model_key: modelKey })
    }
  }
}
