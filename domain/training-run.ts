import type { HardwarePreference, OperatingMode, TrainingRunStatus } from '../schemas/training-run.ts'

/** Where a run may go from each status; a run taken up again after a lost node stays `running`. */
export const TRAINING_RUN_TRANSITIONS: Readonly<Record<TrainingRunStatus, readonly TrainingRunStatus[]>> = {
  pending: ['running', 'failed', 'cancelled'],
  running: ['completed', 'failed', 'cancelled'],
  completed: [],
  failed: [],
  cancelled: [],
}

const STATUSES = Object.keys(TRAINING_RUN_TRANSITIONS) as TrainingRunStatus[]

/** The statuses that may precede `to`: what a guarded update names. */
export const sourcesOf = (to: TrainingRunStatus): TrainingRunStatus[] =>
  STATUSES.filter((from) => TRAINING_RUN_TRANSITIONS[from].includes(to))

/** Nothing follows these. */
export const isTerminal = (status: TrainingRunStatus): boolean =>
  TRAINING_RUN_TRANSITIONS[status].length === 0

/** Temporal priority: 1 goes first. */
export const PRIORITY: Readonly<Record<OperatingMode, number>> = { performance: 1, balanced: 3, eco: 5 }

/** Share of a node's threads that a run may use. */
export const THREAD_SHARE: Readonly<Record<OperatingMode, number>> = { performance: 1, balanced: 1, eco: 0.5 }

/**
 * Threads of one trainer on a node. One core stays with the platform, for a trainer that fights for the last one is
 * slower, not faster; the others are divided among as many runs as the node takes at once.
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

/** Attempts in a row that brought nothing new before a run is given up. */
export const MAX_FRUITLESS_ATTEMPTS = 3

/**
 * The kind of node a run waits for, or a sentence why there is none. `gpuOnline` says whether any GPU node is there:
 * a mere preference does not wait for one.
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

/** The immutable queue key of a version: its name as a slug, and enough of its id to be unique. */
export function modelKeyOf(name: string, versionId: string): string {
  const slug = name
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 40)
    .replace(/-+$/, '')
  // The last twelve digits of a UUIDv7 are random.
  return `${slug || 'model'}-${versionId.slice(-12)}`
}

/** Why a workflow gives a run up. */
export type GiveUpReason = 'permanent' | 'fruitless' | 'internal'

const WHY: Readonly<Record<GiveUpReason, string>> = {
  permanent: 'The run cannot be trained.',
  fruitless: `${MAX_FRUITLESS_ATTEMPTS} attempts in a row ended without a new checkpoint.`,
  internal: 'The platform could not finish this run.',
}

/** What callers read of a failed run: why it was given up, the last attempt's own words, else the last lines of its log. */
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
