import { createHash } from 'node:crypto'
import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { memoryLimitMb } from '../../domain/models/memory.ts'
import { gpusOfOneProgram, trainingProcesses, usesGpus } from '../../domain/placement/gpu-capacity.ts'
import { NO_CUDA, trainerThreads } from '../../domain/training/training-run.ts'
import { unlessAborted } from '../../platform/async/unless-aborted.ts'
import type { JobClaim, StorageWait } from '../../schemas/nodes/lease.ts'
import type { NodeInventory } from '../../schemas/nodes/node.ts'
import type { JobReport } from '../control/spool.ts'
import type { GpuHealth } from '../hardware/gpu-health.ts'
import type { ProcessDriver } from '../processes/process-driver.ts'
import { downloadFile } from '../weights/transfer.ts'
import { AttemptError } from './attempt-error.ts'
import { type BaseTools, fetchBase } from './base-model.ts'
import { findGpuKernels } from './gpu-kernels.ts'
import { completeJob, type LeaseContext, type LeaseTools, underLease } from './job-lease.ts'
import { supervise } from './supervise.ts'
import { TrainingPace } from './training-pace.ts'

/** Returns the number of cores of this machine, or the limit per program from the operator's `OMP_NUM_THREADS`. */
const coresForTraining = (): number =>
  Math.min(availableParallelism(), Number(process.env.OMP_NUM_THREADS) || Infinity)

/** The parts of a node that an attempt uses. */
export interface AttemptTools extends BaseTools, LeaseTools {
  readonly control: LeaseTools['control']
  readonly models: BaseTools['models'] & LeaseTools['models']
  readonly driver: ProcessDriver
  readonly pythonOf: (environment: string, tell?: (line: string) => void) => Promise<string>
  /** Receives reports of whether trainers on GPUs could use them. */
  readonly gpuHealth?: Pick<GpuHealth, 'failed' | 'worked' | 'isUnusable'>
  readonly inventory: Pick<NodeInventory, 'hardware' | 'gpus' | 'train_slots' | 'memory_mb' | 'ram_mb'>
}

export interface AttemptOptions {
  claim: JobClaim
  report: JobReport
  /** Ends the attempt immediately, without a checkpoint. */
  cancelled: AbortSignal
  /** Ends the attempt with a checkpoint. */
  pausing: AbortSignal
  leaseS: number
  /** True if the run was offered to GPU nodes; any other run may train on the CPU. */
  isForGpu: boolean
}

const CACHED_DATASETS = 8

/** Trains one claimed job to completion. */
export function trainUnderLease(tools: AttemptTools, options: AttemptOptions): Promise<void> {
  const { specification } = options.claim
  const hasGpus = usesGpus(specification) && (options.isForGpu || !tools.gpuHealth?.isUnusable)
  if (usesGpus(specification) && !hasGpus)
    options.report.log("This node cannot use its GPUs. The run doesn't need a GPU, so it trains on the CPU.")
  const processes = hasGpus
    ? Math.min(
        trainingProcesses(specification, tools.memory.gpus),
        Math.max(1, gpusOfOneProgram(tools.inventory.gpus)),
      )
    : 1
  const memoryMb = specification.memory_mb * processes
  const gpus = hasGpus ? { gpuCount: processes } : {}
  return underLease(tools, { ...options, memoryMb, ...gpus }, (place) =>
    attempt(tools, { ...options, ...place, processes }),
  )
}

async function attempt(
  tools: AttemptTools,
  {
    claim,
    report,
    processes,
    dir,
    signal,
    pausing,
    lease,
  }: AttemptOptions & LeaseContext & { processes: number },
): Promise<void> {
  const { specification: spec, checkpoint } = claim
  const stopping = tools.stopping()
  const stop = AbortSignal.any([signal, stopping, pausing])
  await mkdir(dir, { recursive: true })
  if (checkpoint) {
    const whose = checkpoint.job_id === claim.job_id ? '' : ` of the identical run ${checkpoint.job_id}`
    report.log(`Resuming from the checkpoint after ${spec.progress_unit} ${checkpoint.epoch}${whose}.`)
  }
  const [python, dataset, resumeFrom, base] = await Promise.all([
    unlessAborted(
      tools.pythonOf(spec.environment, (line) => report.log(line)),
      stop,
    ),
    fetchInto(dir, { ...spec.dataset, signal: stop }),
    checkpoint && fetchInto(dir, { ...checkpoint, filename: `from-${checkpoint.filename}`, signal: stop }),
    spec.base && fetchBase(tools, spec.base, { dir, signal: stop, tell: (line) => report.log(line) }),
  ])
  const room = { signal: stop, onWait: (kind: StorageWait | null) => lease.waitFor(kind) }
  const gpus = tools.memory.devicesOf(claim.job_id)
  const kernels = await unlessAborted(
    findGpuKernels({
      trainer: spec.trainer,
      python,
      gpus: gpus.length,
      pythonOf: tools.pythonOf,
      tell: (line) => report.log(line),
    }),
    stop,
  )
  const { files, result } = await supervise({
    room,
    driver: tools.driver,
    control: tools.control,
    token: claim.lease_token,
    python,
    dir,
    name: `train-${claim.job_id}.${claim.attempt}`,
    report,
    pace: new TrainingPace((detail) => lease.report(detail)),
    progressUnit: spec.progress_unit,
    signal,
    stopping,
    pausing,
    limitMb: limitOf(spec.memory_mb * processes, tools.inventory),
    gpus,
    kernels,
    job: {
      job_id: claim.job_id,
      trainer: spec.trainer,
      dataset: { format: spec.dataset.format, paths: [dataset] },
      hyperparameters: spec.hyperparameters,
      output_dir: join(dir, 'output'),
      checkpoint_dir: join(dir, 'checkpoints'),
      resume_from: resumeFrom,
      threads: trainerThreads({
        cores: coresForTraining(),
        slots: tools.inventory.train_slots,
        share: spec.thread_share,
      }),
      base_dir: base,
      base_revision: spec.base_revision ?? null,
      // This folder is outside the attempts' folders, because those are removed with the attempts.
      cache_dir: await tokenizedDatasetFolder(join(tools.workDir, 'tokens'), spec.dataset.url),
      processes,
      hardware: tools.inventory.hardware,
      gpus: gpus.length,
    },
  }).catch((err: unknown) => {
    if (err instanceof AttemptError && err.code === NO_CUDA) tools.gpuHealth?.failed(err.message)
    throw err
  })
  if (gpus.length > 0) tools.gpuHealth?.worked()
  await completeJob(tools.control, claim, { files, result, signal, room })
}

/**
 * Returns a separate folder per dataset. A dataset's contents may control what its trainer writes there, so no trainer
 * may read the folder of another dataset.
 */
async function tokenizedDatasetFolder(root: string, datasetUrl: string): Promise<string> {
  await mkdir(root, { recursive: true })
  const ages = await Promise.all(
    (await readdir(root)).map(async (name) => ({ name, usedAt: (await stat(join(root, name))).mtimeMs })),
  )
  const oldest = ages.toSorted((a, b) => b.usedAt - a.usedAt).slice(CACHED_DATASETS)
  await Promise.all(oldest.map(({ name }) => rm(join(root, name), { recursive: true, force: true })))
  // The URL without its signature identifies the dataset.
  const { pathname } = new URL(datasetUrl)
  return join(root, createHash('sha256').update(pathname).digest('hex').slice(0, 32))
}

/**
 * Returns a run's RAM limit. On a GPU node, reservations count only VRAM, so a run may use half of the machine's RAM.
 */
function limitOf(
  reservedMb: number,
  { gpus, memory_mb, ram_mb }: Pick<NodeInventory, 'gpus' | 'memory_mb' | 'ram_mb'>,
): number {
  if (gpus.length > 0) return Math.max(memoryLimitMb(reservedMb), Math.floor(ram_mb / 2))
  // If the run is expected to use more than this node has, the node's memory is the limit.
  return Math.min(memoryLimitMb(reservedMb), memoryLimitMb(memory_mb / 2))
}

interface RemoteFile {
  url: string
  filename: string
  size_bytes: number
  sha256?: string
  signal: AbortSignal
}

async function fetchInto(
  dir: string,
  { url, filename, size_bytes, sha256, signal }: RemoteFile,
): Promise<string> {
  const path = join(dir, 'input', filename)
  let bytes = 0
  await downloadFile({
    url,
    path,
    signal,
    ...(sha256 && { sha256 }),
    onBytes: (count) => (bytes += count),
  })
  if (bytes !== size_bytes) {
    throw new AttemptError('transfer_failed', `${filename} has ${bytes} bytes instead of ${size_bytes}.`)
  }
  return path
}
