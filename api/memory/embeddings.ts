import { unitVector } from '../../domain/memory/nearest.ts'
import { inferOnWarmNode } from '../inference/warm.ts'
import type { Services } from '../services.ts'

type Deps = Pick<Services, 'endpoints' | 'links' | 'catalog' | 'places' | 'now' | 'loads' | 'db' | 'objects'>
type Endpoint = NonNullable<Awaited<ReturnType<Services['endpoints']['find']>>>

/** How long to wait for a model that isn't loaded before embedding entries. */
const LOAD_TIMEOUT_MS = 120_000

/** The embedding model of the platform's memory, which an operator configures as an endpoint. */
export class Embeddings {
  readonly #services: Deps
  readonly #model: string
  /** Models that accept only one input at a time. */
  readonly #single = new Set<string>()
  #isLoading = false

  /** `model` is the id or the name of an endpoint; empty for no model. */
  constructor(services: Deps, model: string) {
    this.#services = services
    this.#model = model
  }

  /** Returns the model's key; undefined if there is no model. */
  async modelKey(): Promise<string | undefined> {
    return (await this.#endpoint())?.model_key
  }

  /**
   * Returns a unit vector for each input, or null for an input that the model rejects, from a node that serves the
   * account and has the model loaded; undefined if there is no such node. Throws if the model rejects every input,
   * because then the inputs aren't the problem.
   */
  async embed(
    accountId: string,
    texts: readonly string[],
    signal: AbortSignal,
  ): Promise<(Float32Array | null)[] | undefined> {
    const endpoint = await this.#endpoint()
    if (!endpoint) return undefined
    const { model_key } = endpoint
    if (texts.length > 1 && !this.#single.has(model_key)) {
      const result = await this.#ask(endpoint, accountId, texts, signal)
      if (!result) return undefined
      const vectors = vectorsIn(result['embeddings'])
      if (vectors?.length === texts.length) return vectors
    }
    const vectors: (Float32Array | null)[] = []
    for (const text of texts) {
      const result = await this.#ask(endpoint, accountId, text, signal)
      if (!result) return undefined
      vectors.push(unitVector(result['embedding']) ?? null)
    }
    if (vectors.every((vector) => vector === null))
      // Leave the model's response out of the error, because it may quote an input.
      throw new Error('the embedding model returned no vectors')
    if (texts.length > 1 && !vectors.includes(null)) this.#single.add(model_key)
    return vectors
  }

  /** Loads the model on a node that serves the account, and waits until it is loaded. */
  async load(accountId: string, signal: AbortSignal): Promise<void> {
    const endpoint = await this.#endpoint()
    if (!endpoint) return
    const { model_key, runtime_profile, memory_mb } = endpoint
    const need = { model_key, runtime_profile, memory_mb, account_id: accountId }
    await this.#services.loads.wait(need, { timeoutMs: LOAD_TIMEOUT_MS, bytes: 0, signal })
  }

  /** Starts loading the model without waiting for it. */
  loadSoon(accountId: string): void {
    if (this.#isLoading) return
    this.#isLoading = true
    this.load(accountId, AbortSignal.timeout(LOAD_TIMEOUT_MS))
      // The next request without vectors retries.
      .catch(() => {})
      .finally(() => (this.#isLoading = false))
  }

  async #endpoint(): Promise<Endpoint | undefined> {
    if (this.#model === '') return undefined
    const found = await this.#services.endpoints.find(this.#model)
    return found?.status === 'active' && found.unusable === null ? found : undefined
  }

  async #ask(
    endpoint: Endpoint,
    accountId: string,
    text: string | readonly string[],
    signal: AbortSignal,
  ): Promise<Record<string, unknown> | undefined> {
    const input = Buffer.from(JSON.stringify({ text }))
    const answer = await inferOnWarmNode(
      this.#services,
      { endpoint, accountId, input, surface: 'rest' },
      signal,
    )
    if (!answer) return undefined
    const { outcome, room } = answer
    room.release()
    return outcome.status === 'succeeded' ? outcome.value : {}
  }
}

function vectorsIn(values: unknown): Float32Array[] | undefined {
  if (!Array.isArray(values)) return undefined
  const vectors = values.map(unitVector)
  return vectors.every((vector) => vector !== undefined) ? vectors : undefined
}
