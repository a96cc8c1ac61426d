const MB = 1024 * 1024

/** What a model of a runtime is expected to hold until its peak has been measured, in MB. */
export function estimateMb(
  profile: { memory_mb: number; memory_per_weights_mb?: number },
  weightsBytes: number,
): number {
  return Math.ceil(profile.memory_mb + (profile.memory_per_weights_mb ?? 0) * (weightsBytes / MB))
}

/**
 * The most that work may hold for which so much is reserved, in MB. Reservations are estimates that honest work exceeds
 * now and then: the limit is there for what would take a whole machine.
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

/** Bytes of the weights among a version's files; adapters that lie beside a model are not served. */
export const weightsBytes = (files: readonly SizedFile[]): number =>
  sumOf(files.filter((file) => isWeights(file) && !ADAPTER.test(file.path)))

/** Bytes of the adapter among them. */
export const adapterBytes = (files: readonly SizedFile[]): number =>
  sumOf(files.filter((file) => isWeights(file) && ADAPTER.test(file.path)))

/** How a language model is trained: LoRA layers on a base in 4 bits or bf16, or all of it in float32. */
export type Adapter = 'qlora' | 'lora' | 'none'

export interface Tuning {
  /** Of the base. */
  parameters: number
  adapter: Adapter
  isOptimizer8Bit: boolean
  loraRank: number
  /** The adapter is folded into the base in bf16 where it was trained; a GPU leaves that to the machine's own memory. */
  isOnCpu: boolean
}

/** Bytes of one trained parameter: value and gradient in float32, and the two moments of Adam. */
const TRAINED_BYTES = { plain: 16, eightBit: 10 } as const
const BASE_BYTES = { qlora: 0.75, lora: 2 } as const
/** LoRA on all linear layers adds so many parameters per parameter of the base and rank: 0.0004 to a Llama of 7B, 0.0011 to one of 0.5B. */
const LORA_SHARE = 0.0006

/** What training a language model holds for its weights, in MB; activations and libraries are the config's own figure. */
export function tuningMemoryMb({ parameters, adapter, isOptimizer8Bit, loraRank, isOnCpu }: Tuning): number {
  if (parameters === 0) return 0
  const trained = isOptimizer8Bit ? TRAINED_BYTES.eightBit : TRAINED_BYTES.plain
  if (adapter === 'none') return Math.ceil((parameters * trained) / MB)
  const base = isOnCpu ? BASE_BYTES.lora : BASE_BYTES[adapter]
  return Math.ceil((parameters * (base + LORA_SHARE * loraRank * trained)) / MB)
}
