import type { Logger } from '../../platform/log.ts'
import type { GpuFault } from '../../schemas/node.ts'
import { emit } from '../events.ts'
import type { CudaProbe } from './cuda-probe.ts'

const RECHECK_INTERVAL_MS = 60_000
const MAX_REASON = 300

export interface GpuHealthOptions {
  /** Absent on nodes without NVIDIA GPUs. */
  probe?: (() => Promise<CudaProbe>) | undefined
  log: Logger
  /** Called when the fault appears, changes or disappears, and when CUDA has started for the first time. */
  onChange?: () => void
}

/**
 * Knows whether programs on this node can compute on its GPUs. The node reports a fault, because without it a GPU node
 * looks well while everything fails or, worse, computes on the processor.
 */
export class GpuHealth implements Disposable {
  readonly #options: GpuHealthOptions
  #probed: GpuFault | undefined
  /** From a trainer or server; CUDA may start and PyTorch still be unable to use it, for example with an old driver. */
  #met: GpuFault | undefined
  #timer: NodeJS.Timeout | undefined
  #isClosed = false
  #isProven = false

  constructor(options: GpuHealthOptions) {
    this.#options = options
  }

  /** The fault that operators should see; undefined while none is known. */
  get fault(): GpuFault | undefined {
    return this.#probed ?? this.#met
  }

  /** True until CUDA has started on this node: a job for a GPU would fail. Checked every minute. */
  get isUnusable(): boolean {
    return this.#options.probe !== undefined && !this.#isProven
  }

  /** Probes the GPUs, and again every minute while they cannot be used. */
  async check(): Promise<void> {
    const { probe, log } = this.#options
    clearTimeout(this.#timer)
    if (!probe || this.#isClosed) return
    const found = await probe()
    if (this.#isClosed) return
    if ('devices' in found) {
      if (this.#probed || !this.#timer) emit(log, 'gpu.usable', { devices: found.devices })
      const isNews = !this.#isProven
      this.#isProven = true
      if (!this.#set(undefined, this.#met) && isNews) this.#options.onChange?.()
      return
    }
    this.#isProven = false
    this.#set({ ...faultOf(found, this.#probed), takes_no_runs: true }, this.#met)
    this.#timer = setTimeout(() => void this.check(), RECHECK_INTERVAL_MS)
    this.#timer.unref()
  }

  /** Records that a trainer or server was placed on a GPU and could not use it. */
  failed(reason: string): void {
    this.#set(this.#probed, faultOf({ code: null, reason: reason.slice(0, MAX_REASON) }, this.#met))
  }

  /** Records that a trainer or server computed on a GPU. */
  worked(): void {
    this.#set(this.#probed, undefined)
  }

  [Symbol.dispose](): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  /** Returns whether that changed the fault. */
  #set(probed: GpuFault | undefined, met: GpuFault | undefined): boolean {
    const before = this.fault?.reason
    this.#probed = probed
    this.#met = met
    const { fault } = this
    if (fault?.reason === before) return false
    if (fault) emit(this.#options.log, 'gpu.unusable', { reason: fault.reason })
    this.#options.onChange?.()
    return true
  }
}

const faultOf = (found: Pick<GpuFault, 'code' | 'reason'>, before: GpuFault | undefined): GpuFault => ({
  since: before?.since ?? new Date().toISOString(),
  ...found,
})
