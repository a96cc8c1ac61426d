const MB = 1024 * 1024

/** The reservation in MB for a model until the peak of a load has been observed. */
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

/** Bytes of the weights among a version's files. Adapters beside a model are not served and do not count. */
export const weightsBytes = (files: readonly SizedFile[]): number =>
  sumOf(files.filter((file) => isWeights(file) && !ADAPTER.test(file.path)))

/** Bytes of the adapter among a version's files. */
export const adapterBytes = (files: readonly SizedFile[]): number =>
  sumOf(files.filter((file) => isWeights(file) && ADAPTER.test(file.path)))

/** The training method of a language model: LoRA layers on a base in 4 bits or bf16, or a full fine-tune in float32. */
export type Adapter = 'qlora' | 'lora' | 'none'

export interface Tuning {
  /** The number of parameters of the base. */
  parameters: number
  adapter: Adapter
  isOptimizer8Bit: boolean
  loraRank: number
  /** On a CPU the adapter is folded into the base in bf16 on the same device; with a GPU this happens in main memory. */
  isOnCpu: boolean
}

/** Bytes per trained parameter: value and gradient in float32, and the two moments of Adam. */
const TRAINED_BYTES = { plain: 16, eightBit: 10 } as const
const BASE_BYTES = { qlora: 0.75, lora: 2 } as const
/**
 * The parameters that LoRA on all linear layers adds, per parameter of the base and unit of rank: 0.0004 for a Llama of
 * 7B, 0.0011 for one of 0.5B.
 */
const LORA_SHARE = 0.0006

/**
 * The memory in MB for the weights of a language model in training. The config's own figure covers
 * activations and libraries.
 */
export function tuningMemoryMb({ parameters, adapter, isOptimizer8Bit, loraRank, isOnCpu }: Tuning): number {
  if (parameters === 0) return 0
  const trained = isOptimizer8Bit ? TRAINED_BYTES.eightBit : TRAINED_BYTES.plain
  if (adapter === 'none') return Math.ceil((parameters * trained) / MB)
  const base = isOnCpu ? BASE_BYTES.lora : BASE_BYTES[adapter]
  return Math.ceil((parameters * (base + LORA_SHARE * loraRank * trained)) / MB)
}
