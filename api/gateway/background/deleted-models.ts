import type { Kysely } from 'kysely'
import type { CacheWatch } from '../../../db/cache-watch.ts'
import * as deletedModelRepository from '../../../db/repositories/nodes/deleted-models.ts'
import type { Database } from '../../../db/tables.ts'
import { isToolKey } from '../../../domain/tools/catalog.ts'
import { BackgroundLoop } from '../../../platform/async/background-loop.ts'
import type { Logger } from '../../../platform/log.ts'
import { emit } from '../../events.ts'
import type { NodeLinks } from '../links/node-links.ts'

export interface DeletedModelsOptions {
  db: Kysely<Database>
  links: Pick<NodeLinks, 'reportedModels' | 'forget'>
  watch: Pick<CacheWatch, 'on'>
  log: Logger
  everyMs?: number
}

const INTERVAL_MS = 30_000
/** Several endpoints are often deleted in a row, so gather their deletions. */
const GATHER_DELAY_MS = 1_000

/**
 * Instructs linked nodes to delete the files of deleted models. It compares the nodes' reports with the database, so a
 * node that was offline is instructed once it is back, and a lost instruction is sent again.
 */
export class DeletedModels implements AsyncDisposable {
  readonly #options: DeletedModelsOptions
  readonly #loop: BackgroundLoop
  #soon: NodeJS.Timeout | undefined

  constructor(options: DeletedModelsOptions) {
    this.#options = options
    this.#loop = new BackgroundLoop(() => this.#compare(), {
      everyMs: options.everyMs ?? INTERVAL_MS,
      onError: (err) => emit(options.log, 'node.deleted_models_failed', { err }),
    }).start()
    options.watch.on('endpoint', () => {
      this.#soon ??= setTimeout(() => {
        this.#soon = undefined
        void this.#loop.run()
      }, GATHER_DELAY_MS).unref()
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#soon)
    await this.#loop[Symbol.asyncDispose]()
  }

  async #compare(): Promise<void> {
    const { db, links } = this.#options
    const reported = links.reportedModels()
    const keys = new Set([...reported.values()].flat().filter((key) => !isToolKey(key)))
    if (keys.size === 0) return
    const deleted = new Set(await deletedModelRepository.listDeletedModels(db, [...keys]))
    for (const [nodeId, models] of reported) {
      const deletedHere = models.filter((key) => deleted.has(key))
      if (deletedHere.length > 0) links.forget(nodeId, deletedHere)
    }
  }
}
