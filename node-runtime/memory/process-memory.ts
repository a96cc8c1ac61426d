import { ownMb } from '../../platform/processes/memory-watch.ts'
import { treeOf } from '../../platform/processes/process-tree.ts'
import type { ProcessMemory } from '../../schemas/nodes/node.ts'
import { gpuMemoryByPid, totalOf } from '../hardware/nvidia.ts'
import type { ManagedProcess } from '../processes/process-driver.ts'

/** `nvidia-smi` takes about a second of CPU time on some machines. */
const INTERVAL_MS = 15_000
/** How the names of model servers and trainers begin; the rest is the model's key, or the run's id and attempt. */
const NAME = /^(?:model-(?<model>.+)|train-(?<run>.+)\.\d+)$/s
const MAX_REPORTED = 256

export interface ProcessMemoryOptions {
  running: () => readonly Pick<ManagedProcess, 'name' | 'pid'>[]
  hasGpus: boolean
  intervalMs?: number
}

/** Measures the memory of model servers and training runs at intervals, and remembers the peak of each process. */
export class ProcessMemoryMeter implements Disposable {
  readonly #options: ProcessMemoryOptions
  readonly #timer: NodeJS.Timeout
  #measuring: Promise<void> | undefined
  #measured = new Map<string, ProcessMemory>()

  constructor(options: ProcessMemoryOptions) {
    this.#options = options
    this.#timer = setInterval(() => void this.measure(), options.intervalMs ?? INTERVAL_MS)
    this.#timer.unref()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  report(): ProcessMemory[] {
    return [...this.#measured.values()].slice(0, MAX_REPORTED)
  }

  /** Measures now, or waits for the measurement that is under way. */
  measure(): Promise<void> {
    return (this.#measuring ??= this.#measureAll().finally(() => (this.#measuring = undefined)))
  }

  async #measureAll(): Promise<void> {
    const processes = this.#options.running().filter(({ name }) => NAME.test(name))
    const byPid = this.#options.hasGpus && processes.length > 0 ? await gpuMemoryByPid() : undefined
    const all = await Promise.all(processes.map((one) => this.#measureOne(one, byPid)))
    this.#measured = new Map(all.filter((one) => one !== undefined))
  }

  async #measureOne(
    process: Pick<ManagedProcess, 'name' | 'pid'>,
    byPid: ReadonlyMap<number, number> | undefined,
  ): Promise<[name: string, memory: ProcessMemory] | undefined> {
    const pid = await process.pid()
    if (pid === undefined) return undefined
    const pids = await treeOf(pid)
    const earlier = this.#measured.get(process.name)
    const ram_mb = Math.round(await ownMb(pids))
    const vram_mb = byPid && totalOf(byPid, pids)
    const { model, run } = NAME.exec(process.name)?.groups ?? {}
    return [
      process.name,
      {
        ...(model !== undefined && { model_key: model }),
        ...(run !== undefined && { run_id: run }),
        ram_mb,
        ram_peak_mb: Math.max(ram_mb, earlier?.ram_peak_mb ?? 0),
        ...(vram_mb !== undefined && {
          vram_mb,
          vram_peak_mb: Math.max(vram_mb, earlier?.vram_peak_mb ?? 0),
        }),
      },
    ]
  }
}
