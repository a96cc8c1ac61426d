import type { MeasuredLatencyClass, ToolStability } from '../../schemas/tool.ts'

const DAY_MS = 86_400_000
const MAX_LATENCY_MS = { instant: 200, fast: 2_000, slow: 30_000 } as const
/** A class changes only when the latency is this far beyond its limit, so that it doesn't flap near a limit. */
const CLASS_SLACK = 0.1

/** Returns the class of a mean latency; `before` is the current class. */
export function latencyClassOf(
  meanMs: number,
  before: MeasuredLatencyClass | null = null,
): MeasuredLatencyClass {
  const plain = classOf(meanMs)
  if (before === null || plain === before) return plain
  const toward = limitIndex(plain) > limitIndex(before) ? 1 - CLASS_SLACK : 1 + CLASS_SLACK
  return classOf(meanMs * toward) === before ? before : plain
}

const ORDER = ['instant', 'fast', 'slow', 'batch'] as const satisfies readonly MeasuredLatencyClass[]
const limitIndex = (name: MeasuredLatencyClass): number => ORDER.indexOf(name)

function classOf(meanMs: number): MeasuredLatencyClass {
  if (meanMs < MAX_LATENCY_MS.instant) return 'instant'
  if (meanMs < MAX_LATENCY_MS.fast) return 'fast'
  return meanMs < MAX_LATENCY_MS.slow ? 'slow' : 'batch'
}

/** The track record that each level requires. The failure rate covers about the last hundred requests. */
export const PROVEN = {
  beta: { successes: 10, failures: 0.2, ageMs: 0 },
  stable: { successes: 100, failures: 0.05, ageMs: 7 * DAY_MS },
} as const

/** A tool keeps its level until the failure rate exceeds the limit by this factor. */
const KEPT_FAILURES = 2

export interface UseRecord {
  succeeded_requests: number
  failure_share: number | null
  created_at: Date
  proven: ToolStability
}

/** Returns the level that an endpoint's use has proven so far. */
export function provenLevel(use: UseRecord, now: Date): ToolStability {
  if (reaches('stable', use, now)) return 'stable'
  return reaches('beta', use, now) ? 'beta' : 'experimental'
}

function reaches(level: keyof typeof PROVEN, use: UseRecord, now: Date): boolean {
  const { successes, failures, ageMs } = PROVEN[level]
  const had = use.proven === level || use.proven === 'stable'
  return (
    use.succeeded_requests >= successes &&
    (use.failure_share ?? 0) <= failures * (had ? KEPT_FAILURES : 1) &&
    now.getTime() - use.created_at.getTime() >= ageMs
  )
}

/** A tool needs at least this many examples to be `stable`. */
export const STABLE_EXAMPLES = 2

/**
 * Returns a tool's stability: the level that its use has proven, limited by the state of its version and its examples.
 */
export function stabilityOf({
  proven,
  lifecycle_status,
  examples,
}: {
  proven: ToolStability
  lifecycle_status: string
  examples: number
}): ToolStability {
  if (lifecycle_status === 'candidate') return 'experimental'
  return proven === 'stable' && examples < STABLE_EXAMPLES ? 'beta' : proven
}
