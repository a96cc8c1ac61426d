import type { Kysely } from 'kysely'
import { LRUCache } from 'lru-cache'
import * as memoryAcknowledgementRepository from '../../db/repositories/memory/acknowledgements.ts'
import * as memorySnapshotRepository from '../../db/repositories/memory/snapshots.ts'
import * as memoryVectorRepository from '../../db/repositories/memory/vectors.ts'
import type { UnembeddedEntry } from '../../db/repositories/memory/vectors.ts'
import * as workflowStartRepository from '../../db/repositories/platform/workflow-starts.ts'
import type { Database } from '../../db/tables.ts'
import { BackgroundLoop } from '../../platform/async/background-loop.ts'
import type { Logger } from '../../platform/log.ts'
import type { SecretBox } from '../../platform/secret-box.ts'
import { memorySnapshotStart } from '../../workflows/contract/starts.ts'
import { emit } from '../events.ts'
import type { Embeddings } from './embeddings.ts'
import { sealVector, vectorContext } from './nearness.ts'
import { requestSnapshot } from './request-snapshot.ts'

const INTERVAL_MS = 5_000
const BATCH = 32
/** The number of vectors encrypted per batch. */
const SEAL_BATCH = 200
/** A claim on entries outlasts one batch; once it expires, other gateways take over a dead gateway's entries. */
const CLAIM_TTL_S = 60
const BATCH_TIMEOUT_MS = 50_000
/** A snapshot that has been requested or building for this long has probably lost its workflow. */
const REQUEST_TIMEOUT_S = 60
const BUILD_TIMEOUT_S = 900
const MAX_ENTRIES = 100
/** If an account's entries can't be embedded, we retry them after this time, without delaying other accounts. */
const ACCOUNT_RETRY_DELAY_MS = 60_000

export interface MemoryUpkeepOptions {
  db: Kysely<Database>
  log: Logger
  secretBox: SecretBox
  gatewayId: string
  embeddings: Pick<Embeddings, 'embed' | 'load' | 'modelKey'>
  outbox: { poke(): void }
}

/**
 * The background work on memory: embeds entries, rebuilds snapshots after a change of the embedding model, and restarts
 * snapshots whose workflow is gone. Every gateway does this; claims divide the work among them.
 */
export class MemoryUpkeep implements AsyncDisposable {
  readonly #options: MemoryUpkeepOptions
  readonly #loop: BackgroundLoop
  readonly #closing = new AbortController()
  /** True once we have logged that gateways are configured with different models. */
  #hasWarned = false
  /** Accounts whose entries recently could not be embedded. */
  readonly #aside = new LRUCache<string, true>({ max: 10_000, ttl: ACCOUNT_RETRY_DELAY_MS })

  constructor(options: MemoryUpkeepOptions) {
    this.#options = options
    this.#loop = new BackgroundLoop(() => this.#run(), {
      everyMs: INTERVAL_MS,
      onError: (err) => emit(options.log, 'memory.upkeep_failed', { err }),
    }).start()
  }

  /** Triggers a run soon, because entries were added. */
  poke(): void {
    void this.#loop.run()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    await this.#loop[Symbol.asyncDispose]()
  }

  async #run(): Promise<void> {
    const modelKey = await this.#options.embeddings.modelKey()
    await this.#restartStalled(modelKey)
    await this.#sealVectors()
    const isAgreed = await this.#isAgreed(modelKey)
    if (modelKey === undefined) return
    if (isAgreed) await this.#remake(modelKey)
    while (!this.#closing.signal.aborted && (await this.#embedBatch(modelKey)));
  }

  /** Restarts workflows whose execution was terminated manually; a running one is unaffected. */
  async #restartStalled(modelKey: string | undefined): Promise<void> {
    const { db, outbox } = this.#options
    const limits = { wantedS: REQUEST_TIMEOUT_S, buildingS: BUILD_TIMEOUT_S, limit: MAX_ENTRIES }
    const stalled = await memorySnapshotRepository.listStalledBuilds(db, limits)
    for (const { namespace_id: namespaceId, account_id: accountId, build } of stalled) {
      const start = memorySnapshotStart({ namespaceId, accountId, build, modelKey })
      await db.transaction().execute((trx) => workflowStartRepository.enqueueWorkflow(trx, start))
    }
    if (stalled.length > 0) outbox.poke()
  }

  /** Encrypts vectors stored by gateways of earlier versions, some of which may still be running. */
  async #sealVectors(): Promise<void> {
    const { db, secretBox } = this.#options
    const seal = (vector: Buffer, entryId: string) => secretBox.seal(vector, vectorContext(entryId))
    while (!this.#closing.signal.aborted) {
      const sealed = await memoryVectorRepository.sealVectors(db, { seal, limit: SEAL_BATCH })
      if (sealed < SEAL_BATCH) return
    }
  }

  /**
   * Returns whether all gateways are configured with the same embedding model. While they differ, no gateway rebuilds
   * snapshots, because they would undo each other's work.
   */
  async #isAgreed(modelKey: string | undefined): Promise<boolean> {
    const { db, log, gatewayId } = this.#options
    const others = await memoryAcknowledgementRepository.noteModel(db, gatewayId, modelKey ?? null)
    const isAgreed = others.every((other) => other === modelKey)
    if (!isAgreed && !this.#hasWarned) emit(log, 'memory.models_differ', { gateway_id: gatewayId })
    this.#hasWarned = !isAgreed
    return isAgreed
  }

  async #remake(modelKey: string): Promise<void> {
    const { db, outbox } = this.#options
    const others = await memoryVectorRepository.listOtherModels(db, { modelKey, limit: MAX_ENTRIES })
    for (const namespace of others) {
      await db.transaction().execute(async (trx) => {
        await memoryVectorRepository.dropOtherModels(trx, { namespaceId: namespace.id, modelKey })
        await requestSnapshot(trx, namespace, modelKey)
      })
    }
    if (others.length > 0) outbox.poke()
  }

  /** Embeds one batch of an account; returns whether there may be more. An account whose batch fails is set aside. */
  async #embedBatch(modelKey: string): Promise<boolean> {
    const { db, log, secretBox } = this.#options
    const entries = await memoryVectorRepository.claimUnembedded(db, {
      claimS: CLAIM_TTL_S,
      limit: BATCH,
      except: [...this.#aside.keys()],
    })
    const [first] = entries
    if (!first) return false
    const { account_id: accountId } = first
    try {
      const made = await this.#vectorsOf(accountId, entries)
      if (!made) throw new Error('the embedding model is not loaded')
      const vectors = entries.flatMap(({ id }, i) =>
        made[i] ? [{ id, sealed: sealVector(secretBox, id, made[i]) }] : [],
      )
      const refused = entries.flatMap(({ id }, i) => (made[i] === null ? [id] : []))
      await db
        .transaction()
        .execute((trx) => memoryVectorRepository.storeVectors(trx, { accountId, modelKey, vectors, refused }))
    } catch (err) {
      this.#aside.set(accountId, true)
      emit(log, 'memory.not_embedded', { err, account_id: accountId })
    }
    return true
  }

  async #vectorsOf(
    accountId: string,
    entries: readonly UnembeddedEntry[],
  ): Promise<(Float32Array | null)[] | undefined> {
    const { embeddings, secretBox } = this.#options
    const texts = entries.map(({ id, sealed }) => secretBox.open(sealed, `memory_entry/${id}`).toString())
    const { signal } = this.#closing
    const embed = () =>
      embeddings.embed(accountId, texts, AbortSignal.any([signal, AbortSignal.timeout(BATCH_TIMEOUT_MS)]))
    const vectors = await embed()
    if (vectors) return vectors
    await embeddings.load(accountId, signal)
    return embed()
  }
}
