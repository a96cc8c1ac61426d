import type { HardwarePreference, OperatingMode, TrainingRunStatus } from '../../schemas/training-run.ts'
import { slugOf } from '../slug.ts'

/** The statuses that may follow each status. A run that resumes after a lost node stays `running`. */
export const TRAINING_RUN_TRANSITIONS: Readonly<Record<TrainingRunStatus, readonly TrainingRunStatus[]>> = {
  pending: ['running', 'failed', 'cancelled'],
  running: ['completed', 'failed', 'cancelled'],
  completed: [],
  failed: [],
  cancelled: [],
}

const STATUSES = Object.keys(TRAINING_RUN_TRANSITIONS) as TrainingRunStatus[]

/** Returns the statuses that may precede `to`, which guard the update to it. */
export const sourcesOf = (to: TrainingRunStatus): TrainingRunStatus[] =>
  STATUSES.filter((from) => TRAINING_RUN_TRANSITIONS[from].includes(to))

/** A terminal status has no successors. */
export const isTerminal = (status: TrainingRunStatus): boolean =>
  TRAINING_RUN_TRANSITIONS[status].length === 0

/** Temporal priority; 1 is the highest. */
export const PRIORITY: Readonly<Record<OperatingMode, number>> = { performance: 1, balanced: 3, eco: 5 }

/** The share of a node's threads that a run may use. */
export const THREAD_SHARE: Readonly<Record<OperatingMode, number>> = { performance: 1, balanced: 1, eco: 0.5 }

/**
 * Returns the number of threads for one trainer on a node. One core is left for the platform, because a trainer that
 * competes for the last core becomes slower. The other cores are divided among the runs that the node executes at once.
 */
export const trainerThreads = ({
  cores,
  slots,
  share,
}: {
  cores: number
  slots: number
  share: number
}): number => Math.max(1, Math.floor(((cores - 1) / Math.max(1, slots)) * share))

/** A run fails after this many consecutive attempts without a new checkpoint. */
export const MAX_FRUITLESS_ATTEMPTS = 3

/** The error code of a trainer that was placed on a GPU but can't use it (node-runtime/trainers/README.md). */
export const NO_CUDA = 'no_cuda'

/**
 * This many attempts that failed because of their node don't count against the run. The limit covers runs that no node
 * can train, for example because all drivers are too old.
 */
export const MAX_NODE_FAULTS = 10

/**
 * Returns the kind of node that a run waits for, or a sentence that explains why there is none. `gpuOnline` says
 * whether a GPU node is connected: a mere preference doesn't wait for one.
 */
export function hardwareFor(
  preference: HardwarePreference,
  { requiresGpu, gpuOnline }: { requiresGpu: boolean; gpuOnline: boolean },
): { hardware: 'cpu' | 'gpu' } | { refused: string } {
  if (requiresGpu) {
    return preference === 'cpu_only'
      ? { refused: 'this model config needs a GPU, so cpu_only can never run it' }
      : { hardware: 'gpu' }
  }
  if (preference === 'gpu_only') return { hardware: 'gpu' }
  return { hardware: preference === 'gpu_preferred' && gpuOnline ? 'gpu' : 'cpu' }
}

/** Creates the immutable key of a version for queue names: a slug of its name, and enough of its id to be unique. */
export function modelKeyOf(name: string, versionId: string): string {
  // The last twelve digits of a UUIDv7 are random.
  return `${slugOf(name, 40) || 'model'}-${versionId.slice(-12)}`
}

/** Why a workflow fails a run. */
export type GiveUpReason = 'permanent' | 'fruitless' | 'internal'

const WHY: Readonly<Record<GiveUpReason, string>> = {
  permanent: 'The run cannot be trained.',
  fruitless: `${MAX_FRUITLESS_ATTEMPTS} attempts in a row ended without a new checkpoint.`,
  internal: 'The platform could not finish this run.',
}

/** Returns the error of a failed run: the reason, and the last attempt's error or the last lines of its log. */
export function failureText(
  reason: GiveUpReason,
  { lastError, lastLines }: { lastError: string | null; lastLines: readonly string[] },
): string {
  if (reason === 'permanent' && lastError) return lastError
  if (lastError) return `${WHY[reason]} ${lastError}`
  const lost = reason === 'fruitless' ? ' The node was lost each time.' : ''
  const log = lastLines.length > 0 ? ` The last lines of its log:\n${lastLines.join('\n')}` : ''
  return `${WHY[reason]}${lost}${log}`
}
