import type { Kysely } from 'kysely'
import * as memoryHistoryRepository from '../../../db/repositories/nodes/memory-history.ts'
import type { MemoryBucket } from '../../../db/repositories/nodes/memory-history.ts'
import type { Database } from '../../../db/tables.ts'
import { bucketStart, MEMORY_WINDOWS, type MemoryWindow } from '../../../domain/placement/memory-windows.ts'
import { isStorable } from '../../../domain/storable-text.ts'
import { isCanonicalUuid } from '../../../domain/uuid.ts'
import { BackgroundLoop } from '../../../platform/async/background-loop.ts'
import type { Logger } from '../../../platform/log.ts'
import type { NodeReport, ProcessMemory } from '../../../schemas/nodes/node.ts'
import { emit } from '../../events.ts'

const FLUSH_INTERVAL_MS = 60_000
/** Nodes report every second, but measure their processes only every 15 seconds. */
const SAMPLE_INTERVAL_MS = 5_000
/** How long a bucket stays in memory after its end if the database fails. */
const MAX_DELAY_MS = 10 * 60_000
/** The maximum number of model servers and runs per node and bucket; the totals include the others. */
const MAX_PROCESSES = 100
/** The largest amount that a report may contain. A node's processes together could exceed it, and so an integer. */
const MAX_MB = 1_000_000_000

const WINDOWS = Object.entries(MEMORY_WINDOWS) as [MemoryWindow, (typeof MEMORY_WINDOWS)[MemoryWindow]][]

/** The sum and maximum of a quantity's samples, in MB. */
class Gauge {
  #samples = 0
  #sum = 0
  #max = 0

  add(mb: number | undefined): void {
    if (mb === undefined) return
    this.#samples += 1
    this.#sum += Math.min(mb, MAX_MB)
    this.#max = Math.max(this.#max, Math.min(mb, MAX_MB))
  }

  get avgMb(): number | null {
    return this.#samples === 0 ? null : Math.round(this.#sum / this.#samples)
  }

  get maxMb(): number | null {
    return this.#samples === 0 ? null : this.#max
  }
}

/** The memory of a node or of one of its processes in one bucket. */
interface Tally extends Pick<MemoryBucket, 'kind' | 'key' | 'samples' | 'totalMb'> {
  ram: Gauge
  vram: Gauge
  reserved: Gauge
}

interface Sample extends Pick<MemoryBucket, 'kind' | 'key'> {
  ramMb: number | undefined
  vramMb: number | undefined
  reservedMb?: number
  totalMb?: number
}

interface Bucket extends Pick<MemoryBucket, 'nodeId' | 'window' | 'at'> {
  endsAt: number
  sampledAt: number
  /** True if it has samples that aren't stored. */
  isChanged: boolean
  tallies: Map<string, Tally>
}

export interface MemoryHistoryOptions {
  db: Kysely<Database>
  gatewayId: string
  log: Logger
}

/**
 * Adds the memory that nodes report to buckets, and stores all changed buckets once a minute. A gateway that dies loses
 * at most its last minute.
 */
export class MemoryHistory implements AsyncDisposable {
  readonly #options: MemoryHistoryOptions
  readonly #buckets = new Map<string, Bucket>()
  readonly #loop: BackgroundLoop

  constructor(options: MemoryHistoryOptions) {
    this.#options = options
    this.#loop = new BackgroundLoop(() => this.flush(), {
      everyMs: FLUSH_INTERVAL_MS,
      onError: (err) => emit(options.log, 'node.memory_write_failed', { err }),
    }).start()
  }

  /** Samples a node's report; ignores reports that follow the last sample closely. */
  note(nodeId: string, report: NodeReport, now = Date.now()): void {
    const buckets = WINDOWS.map(([window]) => this.#bucket(nodeId, window, now))
    if (buckets.some(({ sampledAt }) => Math.abs(now - sampledAt) < SAMPLE_INTERVAL_MS)) return
    const samples = samplesOf(report)
    for (const bucket of buckets) {
      bucket.sampledAt = now
      bucket.isChanged = true
      for (const sample of samples) addSample(bucket.tallies, sample)
    }
  }

  /** Stores the changed buckets, and forgets those that have ended. */
  async flush(now = Date.now()): Promise<void> {
    const { db, gatewayId } = this.#options
    const changed = [...this.#buckets.values()].filter(({ isChanged }) => isChanged)
    for (const bucket of changed) bucket.isChanged = false
    try {
      if (changed.length > 0)
        await memoryHistoryRepository.saveMemoryBuckets(db, gatewayId, changed.flatMap(rowsOf))
    } catch (err) {
      for (const bucket of changed) bucket.isChanged = true
      throw err
    } finally {
      for (const [name, { endsAt, isChanged }] of this.#buckets)
        if (endsAt <= now - (isChanged ? MAX_DELAY_MS : 0)) this.#buckets.delete(name)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]()
    await this.flush().catch((err: unknown) => emit(this.#options.log, 'node.memory_write_failed', { err }))
  }

  #bucket(nodeId: string, window: MemoryWindow, now: number): Bucket {
    const { bucketS } = MEMORY_WINDOWS[window]
    const at = bucketStart(now, bucketS)
    const name = `${nodeId} ${window} ${at}`
    let bucket = this.#buckets.get(name)
    if (!bucket) {
      const endsAt = at + bucketS * 1_000
      bucket = { nodeId, window, at, endsAt, sampledAt: 0, isChanged: false, tallies: new Map() }
      this.#buckets.set(name, bucket)
    }
    return bucket
  }
}

/** Returns the node's own sample, then those of its model servers and runs. */
function samplesOf({ memory_total_mb, memory_free_mb, processes }: NodeReport): Sample[] {
  const together = (read: (one: ProcessMemory) => number | undefined): number | undefined => {
    const known = (processes ?? []).map(read).filter((mb) => mb !== undefined)
    return known.length > 0 ? known.reduce((sum, mb) => sum + mb, 0) : undefined
  }
  const node: Sample = {
    kind: 'node',
    key: '',
    ramMb: processes && (together(({ ram_mb }) => ram_mb) ?? 0),
    vramMb: together(({ vram_mb }) => vram_mb),
    reservedMb: Math.max(0, memory_total_mb - memory_free_mb),
    totalMb: memory_total_mb,
  }
  return [node, ...(processes ?? []).flatMap((one) => sampleOf(one) ?? [])]
}

/** Returns a process's sample; undefined for a name that would break the statement for all nodes. */
function sampleOf({ model_key, run_id, ram_mb, vram_mb }: ProcessMemory): Sample | undefined {
  const memory = { ramMb: ram_mb, vramMb: vram_mb }
  if (model_key !== undefined && isStorable(model_key)) return { kind: 'server', key: model_key, ...memory }
  if (run_id !== undefined && isCanonicalUuid(run_id)) return { kind: 'run', key: run_id, ...memory }
  return undefined
}

function addSample(tallies: Map<string, Tally>, sample: Sample): void {
  const { kind, key, ramMb, vramMb, reservedMb, totalMb = null } = sample
  const name = `${kind} ${key}`
  let tally = tallies.get(name)
  if (!tally) {
    if (tallies.size > MAX_PROCESSES) return
    tally = { kind, key, samples: 0, totalMb, ram: new Gauge(), vram: new Gauge(), reserved: new Gauge() }
    tallies.set(name, tally)
  }
  tally.samples += 1
  tally.totalMb = totalMb
  tally.ram.add(ramMb)
  tally.vram.add(vramMb)
  tally.reserved.add(reservedMb)
}

const rowsOf = ({ nodeId, window, at, tallies }: Bucket): MemoryBucket[] =>
  [...tallies.values()].map(({ kind, key, samples, totalMb, ram, vram, reserved }) => ({
    nodeId,
    window,
    at,
    kind,
    key,
    samples,
    ramAvgMb: ram.avgMb,
    ramMaxMb: ram.maxMb,
    vramAvgMb: vram.avgMb,
    vramMaxMb: vram.maxMb,
    reservedMaxMb: reserved.maxMb,
    totalMb,
  }))
