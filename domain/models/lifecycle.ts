/** Where a model may go from each state; `disabled` needs a reason. */
export const LIFECYCLE = {
  candidate: ['ready', 'disabled'],
  ready: ['preferred', 'disabled'],
  preferred: ['disabled'],
  disabled: ['candidate'],
} as const
export type LifecycleStatus = keyof typeof LIFECYCLE

/** Whether a model may go there; staying where it is is no step and always allowed. */
export const mayMove = (from: LifecycleStatus, to: LifecycleStatus): boolean =>
  from === to || (LIFECYCLE[from] as readonly LifecycleStatus[]).includes(to)

/** Merged and retrained models have to pass a test first; what was trained from nothing or from a hub repository is ready. */
export function entersAs(
  jobType: 'training' | 'merge',
  base: { type: string } | null,
): 'candidate' | 'ready' {
  if (jobType === 'merge') return 'candidate'
  return base && base.type !== 'hf' ? 'candidate' : 'ready'
}
