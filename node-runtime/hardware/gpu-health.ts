import type { Logger } from '../../platform/log.ts'
import type { GpuFault } from '../../schemas/nodes/node.ts'
import { emit } from '../events.ts'
import type { CudaProbe } from './cuda-probe.ts'

const RECHECK_INTERVAL_MS = 60_000
/**
 * After a program fails to use its GPU, the node starts no GPU programs for this long, even if CUDA initializes.
 * PyTorch may still be incompatible with the driver: every program would fail within seconds, and the node would
 * attract more work than a healthy one.
 */
const RESTART_DELAY_MS = 5 * 60_000
const MAX_REASON = 300

export interface GpuHealthOptions {
  /** Absent on nodes without NVIDIA GPUs. */
  probe?: (() => Promise<CudaProbe>) | undefined
  log: Logger
  /** Called when the fault appears, changes or disappears, and when the node stops or resumes accepting GPU runs. */
  onChange?: () => void
  recheckMs?: number
  pauseMs?: number
}

/**
 * Tracks whether programs on this node can use its GPUs. Without a reported fault, a GPU node would look healthy while
 * everything on it fails or, worse, computes on the CPU.
 */
export class GpuHealth implements Disposable {
  readonly #options: GpuHealthOptions
  #probed: GpuFault | undefined
  /**
   * Reported by a trainer or server: PyTorch may be unable to use CUDA even though CUDA itself starts, e.g. with an old
   * driver.
   */
  #met: GpuFault | undefined
  #timer: NodeJS.Timeout | undefined
  #checking: Promise<void> | undefined
  #isClosed = false
  #isChecked = false
  #isUnusable: boolean
  /** The number of program failures. A probe's result is inconclusive if a program fails during the probe. */
  #failures = 0
  /** The end of the pause after the last failure, on the monotonic clock. */
  #pausedUntil = 0
  #runs = 0
  /** The state last published to `onChange` and the log. */
  #published: { reason: string | undefined; isUnusable: boolean }

  constructor(options: GpuHealthOptions) {
    this.#options = options
    this.#isUnusable = options.probe !== undefined
    this.#published = { reason: undefined, isUnusable: this.#isUnusable }
  }

  /** The fault that operators should see; undefined while none is known. */
  get fault(): GpuFault | undefined {
    const fault = this.#probed ?? this.#met
    return fault && { ...fault, ...(this.#isUnusable && { takes_no_runs: true }) }
  }

  /**
   * True while GPU programs would probably fail: until the first successful CUDA probe, and after a failure until a
   * probe succeeds once the pause has ended.
   */
  get isUnusable(): boolean {
    return this.#isUnusable
  }

  /** True during runs from a GPU queue: closing the queue would cancel them. */
  get hasRuns(): boolean {
    return this.#runs > 0
  }

  /** Counts a run from a GPU queue until the result is disposed of. */
  beginRun(): Disposable {
    this.#runs++
    return {
      [Symbol.dispose]: () => {
        this.#runs--
        if (this.#runs === 0 && this.#isUnusable) this.#options.onChange?.()
      },
    }
  }

  /** Probes the GPUs, one probe at a time, and again every minute while a fault is known. */
  async check(): Promise<void> {
    const { probe } = this.#options
    if (!probe || this.#isClosed) return
    this.#checking ??= this.#check(probe).finally(() => (this.#checking = undefined))
    await this.#checking
  }

  /** Records that a trainer or server was placed on a GPU and could not use it, and probes the GPUs. */
  failed(reason: string): void {
    this.#met = faultOf({ code: null, reason: reason.slice(0, MAX_REASON) }, this.#met)
    this.#failures++
    if (this.#options.probe) {
      this.#isUnusable = true
      const { pauseMs = RESTART_DELAY_MS } = this.#options
      this.#pausedUntil = performance.now() + pauseMs
    }
    this.#publish()
    void this.check()
  }

  /**
   * Probes the GPUs because a server that had been working lost its GPU. Unlike `failed`, this doesn't pause GPU work
   * before the probe: a request's input may have broken the server, and the GPU works for the next process.
   */
  suspect(): void {
    this.#failures++
    void this.check()
  }

  /** Records that a trainer or server used a GPU successfully. */
  worked(): void {
    this.#met = undefined
    this.#pausedUntil = 0
    this.#publish()
    // The program may have begun before the fault, so a probe decides.
    if (this.#isUnusable) void this.check()
  }

  [Symbol.dispose](): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  async #check(probe: () => Promise<CudaProbe>): Promise<void> {
    const { log, recheckMs = RECHECK_INTERVAL_MS } = this.#options
    clearTimeout(this.#timer)
    let probed: CudaProbe
    let failures: number
    do {
      failures = this.#failures
      probed = await probe()
      if (this.#isClosed) return
    } while (failures !== this.#failures)
    if ('devices' in probed) {
      if (this.#probed || !this.#isChecked) emit(log, 'gpu.usable', { devices: probed.devices })
      this.#probed = undefined
      this.#isUnusable = performance.now() < this.#pausedUntil
    } else {
      this.#probed = faultOf(probed, this.#probed)
      this.#isUnusable = true
    }
    this.#isChecked = true
    this.#publish()
    if (!this.fault && !this.#isUnusable) return
    this.#timer = setTimeout(() => void this.check(), recheckMs)
    this.#timer.unref()
  }

  /** Logs changes since the last call and notifies the listener. */
  #publish(): void {
    const { log, onChange } = this.#options
    const before = this.#published
    const isUnusable = this.#isUnusable
    const reason = this.fault?.reason
    if (reason === before.reason && isUnusable === before.isUnusable) return
    this.#published = { reason, isUnusable }
    if (reason !== undefined && reason !== before.reason) emit(log, 'gpu.unusable', { reason })
    if (isUnusable !== before.isUnusable) emit(log, isUnusable ? 'gpu.runs_stopped' : 'gpu.runs_resumed')
    onChange?.()
  }
}

const faultOf = (found: Pick<GpuFault, 'code' | 'reason'>, before: GpuFault | undefined): GpuFault => ({
  since: before?.since ?? new Date().toISOString(),
  ...found,
})
