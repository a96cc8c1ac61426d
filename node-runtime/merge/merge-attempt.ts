import { readdir, stat } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import type { MergeClaim } from '../../schemas/training-merge.ts'
import type { DataWarning } from '../../schemas/training-run.ts'
import type { JobReport } from '../control/spool.ts'
import type { BaseOptions, BaseTools } from '../training/base-model.ts'
import { completeJob, type LeaseTools, underLease } from '../training/job-lease.ts'
import type { FinishedFile } from '../training/supervise.ts'
import { digestOf } from '../weights/transfer.ts'
import { fetchIngredients, MODEL_FOLDER } from './ingredients.ts'
import { MergeError } from './merge-error.ts'
import { mergeModels, type MergeProgress, type MergeSpec } from './merge-models.ts'

type MergeTools = LeaseTools & BaseTools

interface MergeOptions {
  claim: MergeClaim
  report: JobReport
  /** Ends the merge at once. */
  cancelled: AbortSignal
  /** Only training runs can be paused; a merge has no checkpoints. */
  pausing: AbortSignal
  leaseS: number
}

const WARNING = 'Warning: '
const LOG_INTERVAL_MS = 3_000
const MAX_THREADS = 4

/**
 * Executes the merge of a claimed job and stores the result. A lost attempt leaves nothing behind: the next one starts
 * from scratch.
 */
export const mergeUnderLease = (
  tools: MergeTools & { control: LeaseTools['control'] },
  options: MergeOptions,
): Promise<void> =>
  underLease(
    tools,
    { ...options, memoryMb: options.claim.merge.memory_mb },
    async ({ dir, signal, lease }) => {
      const { claim, report } = options
      const stop = AbortSignal.any([signal, tools.stopping()])
      const outDir = join(dir, MODEL_FOLDER)
      const spec = await fetchAll(tools, claim.merge, { dir, signal: stop, tell: (line) => report.log(line) })
      const startedAt = performance.now()
      const warnings: DataWarning[] = []
      const done = await mergeModels(spec, {
        outDir,
        threads: Math.max(1, Math.min(MAX_THREADS, availableParallelism())),
        signal: stop,
        onNote: (line) => {
          report.log(line)
          if (line.startsWith(WARNING)) warnings.push({ message: line.slice(WARNING.length) })
        },
        onProgress: progressLogger(report),
      })
      const seconds = Math.round(performance.now() - startedAt) / 1000
      report.log(`Merged ${done.tensors_total} tensors in ${seconds} s. Storing the result.`)
      const files = await finishedFiles(outDir)
      const metrics = {
        tensors: done.tensors_total,
        bytes: done.bytes_total,
        seconds,
        ...(warnings.length > 0 && { warnings }),
      }
      const nothing = { input_schema: {}, output_schema: {}, example_input: {}, example_output: {} }
      await completeJob(tools.control, claim, {
        files,
        result: { metrics, ...nothing },
        signal: stop,
        room: { signal: stop, onWait: (kind) => lease.waitFor(kind) },
      })
    },
  )

/** Downloads all ingredients to the local disk. */
async function fetchAll(
  tools: BaseTools,
  { method, density, seed, ingredients }: MergeClaim['merge'],
  options: BaseOptions,
): Promise<MergeSpec> {
  const found = await fetchIngredients(tools, ingredients, options)
  const base = found.find(({ role }) => role === 'base')?.ingredient
  const sources = found.filter(({ role }) => role !== 'base').map(({ ingredient }) => ingredient)
  if (method === 'slerp') return { method, sources }
  if (!base) throw new MergeError('arity', `${method} needs a base.`)
  return { method, base, sources, density, seed }
}

async function finishedFiles(dir: string): Promise<FinishedFile[]> {
  const names = (await readdir(dir)).toSorted()
  return Promise.all(
    names.map(async (name) => {
      const path = join(dir, name)
      return {
        path,
        filename: `${MODEL_FOLDER}/${name}`,
        size_bytes: (await stat(path)).size,
        sha256: await digestOf(path),
        content_type: name.endsWith('.json') ? 'application/json' : 'application/octet-stream',
      }
    }),
  )
}

/** Logs a line about the progress every few seconds. */
function progressLogger(report: JobReport): (progress: MergeProgress) => void {
  let loggedAt = performance.now()
  return ({ tensors_done, tensors_total, bytes_done, bytes_total, megabytes_per_second, eta_seconds }) => {
    const now = performance.now()
    if (now - loggedAt < LOG_INTERVAL_MS) return
    loggedAt = now
    const [done, all] = [bytes_done, bytes_total].map((bytes) => Math.round(bytes / 1e6))
    const remainingTime = eta_seconds === null ? '' : `, about ${Math.ceil(eta_seconds)} s left`
    report.log(
      `${tensors_done} of ${tensors_total} tensors, ${done} of ${all} MB at ${megabytes_per_second} MB/s${remainingTime}.`,
    )
  }
}
