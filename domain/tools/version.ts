/**
 * The weight of a manifest change: schema changes that break callers, compatible schema changes, and everything else.
 */
export type ChangeWeight = 'major' | 'minor' | 'patch'

export const FIRST_VERSION = '1.0.0'

/** Returns the semantic version that follows a change. */
export function nextVersion(version: string, change: ChangeWeight): string {
  const [major = 1, minor = 0, patch = 0] = version.split('.').map(Number)
  if (change === 'major') return `${major + 1}.0.0`
  return change === 'minor' ? `${major}.${minor + 1}.0` : `${major}.${minor}.${patch + 1}`
}

const WEIGHTS = ['patch', 'minor', 'major'] as const

export const heavier = (a: ChangeWeight, b: ChangeWeight): ChangeWeight =>
  WEIGHTS.indexOf(a) >= WEIGHTS.indexOf(b) ? a : b
