/**
 * The states of a model's lifecycle. The PATCH route can switch between any two of them (3.5); `disabled` needs a
 * reason.
 */
export const LIFECYCLE_STATES = ['candidate', 'ready', 'preferred', 'disabled'] as const
export type LifecycleStatus = (typeof LIFECYCLE_STATES)[number]

/** Returns whether every account may use a hub import in this state. */
export const isOffered = (status: LifecycleStatus): boolean => status === 'ready' || status === 'preferred'

/** Merged and retrained models must pass a test first. A model trained from scratch or from a hub repository is ready. */
export function entersAs(
  jobType: 'training' | 'merge',
  base: { type: string } | null,
): 'candidate' | 'ready' {
  if (jobType === 'merge') return 'candidate'
  return base && base.type !== 'hf' ? 'candidate' : 'ready'
}
