import { setTimeout as sleep } from 'node:timers/promises'
import { ApiError } from '../../../../domain/errors.ts'
import { LinkError } from '../../../gateway/links/link-request.ts'
import { ClientGoneError } from '../../../http/bodies/body.ts'
import { modelStateOf } from '../../../inference/admission.ts'
import type { ModelSlot } from '../../../inference/model-slots.ts'
import type { Services } from '../../../services.ts'
import type { ModelCall } from './model-call.ts'

/** The maximum number of nodes that may turn out to have evicted the model since their last report. */
const MAX_MISSED = 8
/** After a node or model server breaks before the first byte, one more node is tried. */
const MAX_BROKEN = 1
/** The longest time that a node needs to notice that its model server has exited. */
const EXIT_NOTICE_DELAY_MS = 200

/** Picks a node with the model loaded, and waits for a load if there is none. */
export class NodePicker {
  readonly #services: Services
  readonly #call: ModelCall
  #exclude: Set<string> | undefined
  #deadline: number | undefined
  #missed = 0
  #broken = 0

  constructor(services: Services, call: ModelCall) {
    this.#services = services
    this.#call = call
  }

  /**
   * Returns a slot on a node with the model loaded. Throws `model_cold` or `no_capacity` when no slot is available in
   * time, and `rate_limited` when too many of the account's requests are waiting for one. Calls `onQueue` if the call
   * has to queue.
   */
  pick(onQueue = () => {}): ModelSlot | Promise<ModelSlot> {
    const slot = this.#place()
    if (slot instanceof Promise) {
      onQueue()
      return this.#orWait(slot)
    }
    return slot ?? this.#wait()
  }

  /** Records a node's failure; throws the error for the client when there is nothing left to try. */
  failed(nodeId: string, err: unknown): void {
    if (this.#call.disconnect.aborted)
      throw new ClientGoneError('the client disconnected before it received its response')
    if (!(err instanceof LinkError)) throw err
    ;(this.#exclude ??= new Set()).add(nodeId)
    if (err.code === 'model_cold' || err.code === 'no_capacity') this.#missed += 1
    else this.#broken += 1
    if (err.code === 'timeout' || this.#broken > MAX_BROKEN) throw new ApiError('internal', err.message)
    if (this.#missed > MAX_MISSED) throw new ApiError('no_capacity', err.message)
  }

  #place(): ModelSlot | Promise<ModelSlot | undefined> | undefined {
    const { affinity, endpoint, draft, disconnect } = this.#call
    const { model_key, runtime_profile, memory_mb } = endpoint
    return this.#services.places.take({
      model_key,
      runtime_profile,
      memory_mb,
      account_id: draft.accountId,
      key_id: draft.keyId ?? '',
      tier: draft.tier,
      affinity,
      signal: disconnect,
      ...(this.#exclude && { exclude: this.#exclude }),
    })
  }

  async #orWait(slot: Promise<ModelSlot | undefined>): Promise<ModelSlot> {
    const taken = await slot
    if (!taken && this.#call.disconnect.aborted) throw leftWhileWaiting()
    return taken ?? this.#wait()
  }

  async #wait(): Promise<ModelSlot> {
    const { loads, modelMetrics } = this.#services
    const { endpoint, body, disconnect, draft } = this.#call
    const { model_key, runtime_profile, engine, memory_mb, tensor_parallel, base_key } = endpoint
    const need = {
      model_key,
      account_id: draft.accountId,
      runtime_profile,
      engine,
      memory_mb,
      tensor_parallel,
      base_key,
    }
    draft.modelState = modelStateOf(this.#services, draft)
    if (this.#exclude) await sleep(EXIT_NOTICE_DELAY_MS)
    this.#deadline ??= performance.now() + (await loads.ceilingMs(need))
    for (;;) {
      // Nodes that failed may have loaded the model again.
      this.#exclude = undefined
      const beganAt = performance.now()
      const timeoutMs = Math.max(0, this.#deadline - beganAt)
      try {
        await loads.wait(need, { timeoutMs, bytes: body.length, signal: disconnect.signal })
      } catch (err) {
        throw disconnect.aborted ? leftWhileWaiting() : err
      } finally {
        modelMetrics.waited(model_key, 'load', performance.now() - beganAt)
      }
      const slot = await this.#place()
      if (slot) return slot
      if (disconnect.aborted) throw leftWhileWaiting()
    }
  }
}

const leftWhileWaiting = () => new ClientGoneError('the client disconnected while it waited for its model')
