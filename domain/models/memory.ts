const MB = 1024 * 1024

/** The reservation in MB for a model until the peak memory of a load has been measured. */
export function estimateMb(
  profile: { memory_mb: number; memory_per_weights_mb?: number },
  weightsBytes: number,
): number {
  return Math.ceil(profile.memory_mb + (profile.memory_per_weights_mb ?? 0) * (weightsBytes / MB))
}

/**
 * The memory limit in MB for work with this reservation. Reservations are estimates that well-behaved work may exceed;
 * the limit stops work that would exhaust the machine.
 */
export const memoryLimitMb = (reservedMb: number): number => 2 * reservedMb + 1_024

interface SizedFile {
  path: string
  size_bytes: number
}

const ADAPTER = /(?:^|\/)adapter(?:\/|_model)/
const isWeights = ({ path }: SizedFile): boolean => /\.(?:safetensors|gguf)$/.test(path)
const sumOf = (files: readonly SizedFile[]): number =>
  files.reduce((sum, { size_bytes }) => sum + size_bytes, 0)

/** Bytes of the weights among a version's files. Adapters next to a model are not served and don't count. */
export const weightsBytes = (files: readonly SizedFile[]): number =>
  sumOf(files.filter((file) => isWeights(file) && !ADAPTER.test(file.path)))

/** Bytes of the adapter among a version's files. */
export const adapterBytes = (files: readonly SizedFile[]): number =>
  sumOf(files.filter((file) => isWeights(file) && ADAPTER.test(file.path)))
