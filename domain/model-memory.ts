const MB = 1024 * 1024

/** What a model of a runtime is expected to hold until its peak has been measured, in MB. */
export function estimateMb(
  profile: { memory_mb: number; memory_per_weights_mb?: number },
  weightsBytes: number,
): number {
  return Math.ceil(profile.memory_mb + (profile.memory_per_weights_mb ?? 0) * (weightsBytes / MB))
}
