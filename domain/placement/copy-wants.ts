import type { CopyScale, CopyTarget, MinCopies } from './copies.ts'
import { type ScheduleEntry, scheduledMin } from './copy-schedule.ts'
import type { WarmRequirement } from './warm-pins.ts'

/** The copies that an endpoint wants, and what its model needs. */
export interface EndpointCopies extends Pick<
  WarmRequirement,
  'model_key' | 'runtime_profile' | 'engine' | 'memory_mb' | 'tensor_parallel' | 'base_key'
> {
  readonly account_id: string
  readonly is_public: boolean
  /** The minimum that operators set, whatever the owner sets. */
  readonly min_warm: number
  /** Null for an endpoint without scaling, as are the fields below. */
  readonly min_copies: number | null
  readonly max_copies: number | null
  readonly target_in_flight: number | null
  readonly target_wait_ms: number | null
  readonly idle_timeout_s: number | null
  readonly schedule: readonly ScheduleEntry[] | null
}

/** The copies that all endpoints of one model want together. */
export interface ModelCopies extends Omit<WarmRequirement, 'nodes' | 'copies'> {
  readonly want: CopyTarget
  /** True when the number of copies follows the load. */
  readonly isScaled: boolean
}

/** Returns, for each model, the most demanding settings of its endpoints. */
export function copiesByModel(
  endpoints: readonly EndpointCopies[],
  { now, defaultIdleS }: { now: Date; defaultIdleS: number },
): ModelCopies[] {
  return [...Map.groupBy(endpoints, ({ model_key }) => model_key).values()].map((rows) => {
    const [{ account_id, ...first }] = rows as [EndpointCopies]
    const { model_key, runtime_profile, memory_mb } = first
    const { engine = null, tensor_parallel = null, base_key = null } = first
    const isOpen = rows.some((row) => row.is_public || row.account_id !== account_id)
    const scaled = rows.filter(({ max_copies }) => max_copies !== null)
    const { copies: min, by: minBy } = rows
      .map((row) => leastCopies(row, now))
      .reduce((most, one) => (one.copies > most.copies ? one : most))
    const max = Math.max(1, min, ...rows.map(({ max_copies }) => max_copies ?? 1))
    const reserving = scaled.filter(reservesCopies)
    // Copies that other endpoints want don't cost their accounts anything, so they don't change the reservation.
    const asking = reserving.length > 0 ? reserving : scaled
    const idles = asking.map(({ idle_timeout_s }) => idle_timeout_s ?? defaultIdleS)
    return {
      model_key,
      runtime_profile,
      engine,
      memory_mb,
      tensor_parallel,
      base_key,
      account_id: isOpen ? null : account_id,
      isScaled: scaled.length > 0,
      want: {
        min,
        minBy,
        max,
        targetInFlight: least(asking.map(({ target_in_flight }) => target_in_flight)),
        targetWaitMs: least(asking.map(({ target_wait_ms }) => target_wait_ms)),
        idleTimeoutS: idles.includes(0) ? 0 : Math.max(0, ...idles),
      },
    }
  })
}

/**
 * Returns whether an endpoint with scaling reserves its `max` from the account's quota: it may have several copies,
 * always has one, or has a schedule.
 */
export const reservesCopies = ({
  min_copies,
  max_copies,
  schedule,
}: Pick<EndpointCopies, 'min_copies' | 'max_copies' | 'schedule'>): boolean =>
  (max_copies ?? 0) > 1 || (min_copies ?? 0) > 0 || (schedule ?? []).length > 0

/**
 * Returns how many copies are pinned and how many stay loaded. A single copy that no endpoint always needs isn't
 * pinned: requests load it, and other models may take its memory while it is idle.
 */
export function warmWantOf(
  model: ModelCopies,
  scale: Pick<CopyScale, 'copies'> | undefined,
): WarmRequirement {
  const { want, isScaled, ...needs } = model
  const copies = isScaled ? Math.min(Math.max(scale?.copies ?? 0, want.min), want.max) : want.min
  return { ...needs, copies, isScaled, nodes: copies > 1 || want.min > 0 ? copies : 0 }
}

/** Returns the minimum number of copies that an endpoint wants at a time. */
export function leastCopies(
  { min_warm, min_copies, schedule }: Pick<EndpointCopies, 'min_warm' | 'min_copies' | 'schedule'>,
  now: Date,
): MinCopies {
  const scheduled = scheduledMin(schedule ?? [], now)
  const minimum = scheduled ?? min_copies ?? 0
  if (min_warm > minimum) return { copies: min_warm, by: 'operators' }
  return { copies: minimum, by: scheduled === undefined ? 'min' : 'schedule' }
}

function least(values: readonly (number | null)[]): number | undefined {
  const given = values.filter((value) => value !== null)
  return given.length > 0 ? Math.min(...given) : undefined
}
