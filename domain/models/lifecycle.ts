/** The states that a model may enter from each state; `disabled` needs a reason. */
export const LIFECYCLE = {
  candidate: ['ready', 'disabled'],
  ready: ['preferred', 'disabled'],
  preferred: ['disabled'],
  disabled: ['candidate'],
} as const
export type LifecycleStatus = keyof typeof LIFECYCLE

/** Returns whether a model may enter this state. Staying in a state is always allowed. */
export const mayMove = (from: LifecycleStatus, to: LifecycleStatus): boolean =>
  from === to || (LIFECYCLE[from] as readonly LifecycleStatus[]).includes(to)

/** Merged and retrained models must pass a test first. A model trained from scratch or from a hub repository is ready. */
export function entersAs(
  jobType: 'training' | 'merge',
  base: { type: string } | null,
): 'candidate' | 'ready' {
  if (jobType === 'merge') return 'candidate'
  return base && base.type !== 'hf' ? 'candidate' : 'ready'
}
