const MB = 1024 * 1024

/**
 * The relative error that an estimate may have against a measured peak. An estimate far below the peak lets models run
 * out of memory; one far above it wastes the GPU.
 */
export const MAX_TUNING_DEVIATION = 0.25

/** The training method of a language model: LoRA layers on a base in 4 bits or bf16, or a full fine-tune in float32. */
export type Adapter = 'qlora' | 'lora' | 'none'

/** The dimensions of a model that decide how much memory its training takes. */
export interface TuningShape {
  /** The number of parameters of the base model. */
  parameters: number
  layers: number
  hidden: number
  /** The feed-forward width of a layer. */
  intermediate: number
  /** The number of logits per token; 0 for an encoder, whose head is small. */
  vocabulary: number
}

export interface Tuning {
  shape: TuningShape
  adapter: Adapter
  isOptimizer8Bit: boolean
  loraRank: number
  /** The tokens that pass through the model at once: rows of a micro batch times their maximum length. */
  tokens: number
  isCheckpointed: boolean
  /**
   * On a CPU the adapter is merged into the base in bf16 on the same device; with a GPU the merge happens in main
   * memory.
   */
  isOnCpu: boolean
}

/** Bytes per trained parameter: value and gradient in float32, and the two moments of Adam. */
const TRAINED_BYTES = { plain: 16, eightBit: 10 } as const
const BASE_BYTES = { qlora: 0.75, lora: 2 } as const
/**
 * Parameters that LoRA on all linear layers adds, per base parameter and unit of rank: 0.0004 for a 7B Llama, 0.0011
 * for a 0.5B one.
 */
const LORA_SHARE = 0.0006
/**
 * Bytes per logit at the peak, in the backward pass of the loss: the probabilities and the gradients of both of its
 * steps, in float32.
 */
const LOGIT_BYTES = 12
/** The number of logits that a trainer computes at once: `CHUNK_LOGITS` in hearth_trainers/llm/token_loss.py. */
export const CHUNK_LOGITS = 2 ** 26
/**
 * Bytes that a layer stores for its backward pass, per token and unit of width. The feed-forward part takes 11 (four
 * values in bf16, and its LoRA input with the dropout mask), everything else 23. Both fit the measured peak of a 1.24B
 * Llama without checkpointing.
 */
const LAYER_BYTES = { intermediate: 11, hidden: 23 } as const
/** Bytes that checkpointing stores per layer, token and unit of width: the layer's input, in float32. */
const CHECKPOINT_BYTES = 4
/** QLoRA and encoders hold their embeddings in float32, and autocast adds a bf16 copy. */
const WIDE_EMBEDDING_BYTES = 6

/** Returns the memory in MB for the weights, gradients and optimizer of a model in training. */
export function tuningWeightsMb({ shape, adapter, isOptimizer8Bit, loraRank, isOnCpu }: Tuning): number {
  const { parameters, vocabulary, hidden } = shape
  if (parameters === 0) return 0
  const trained = isOptimizer8Bit ? TRAINED_BYTES.eightBit : TRAINED_BYTES.plain
  if (adapter === 'none') return Math.ceil((parameters * trained) / MB)
  const base = isOnCpu ? BASE_BYTES.lora : BASE_BYTES[adapter]
  const wide = adapter === 'qlora' && !isOnCpu ? vocabulary * hidden * WIDE_EMBEDDING_BYTES : 0
  return Math.ceil((parameters * (base + LORA_SHARE * loraRank * trained) + wide) / MB)
}

/**
 * Returns the memory in MB for the weights of a model in training and, on a GPU, for a micro batch of these tokens. On
 * a CPU the config's own figure covers the batch. The loss has at most `chunkLogits` logits in memory at once.
 */
export function tuningMemoryMb(tuning: Tuning, chunkLogits = CHUNK_LOGITS): number {
  const { shape, tokens, isCheckpointed, isOnCpu } = tuning
  const weights = tuningWeightsMb(tuning)
  if (isOnCpu || shape.parameters === 0) return weights
  const { layers, hidden, intermediate, vocabulary } = shape
  const layer = tokens * (LAYER_BYTES.intermediate * intermediate + LAYER_BYTES.hidden * hidden)
  const logits = LOGIT_BYTES * Math.min(tokens * vocabulary, chunkLogits)
  // Checkpointing recomputes one layer at a time, after the logits have been freed.
  const batch = isCheckpointed
    ? tokens * layers * CHECKPOINT_BYTES * hidden + Math.max(layer, logits)
    : layers * layer + logits
  return weights + Math.ceil(batch / MB)
}

/** Widths of Llama and Qwen models by parameter count; a size in between uses the next larger entry. */
const TYPICAL = [
  { parameters: 0.15e9, layers: 16, hidden: 576, intermediate: 1_536 },
  { parameters: 0.5e9, layers: 24, hidden: 896, intermediate: 4_864 },
  { parameters: 1.6e9, layers: 20, hidden: 2_048, intermediate: 8_192 },
  { parameters: 3.3e9, layers: 32, hidden: 2_816, intermediate: 9_728 },
  { parameters: 9e9, layers: 32, hidden: 4_096, intermediate: 14_336 },
  { parameters: 16e9, layers: 44, hidden: 5_120, intermediate: 14_848 },
  { parameters: 35e9, layers: 64, hidden: 5_120, intermediate: 27_648 },
] as const
const LARGE = { layers: 80, hidden: 8_192, intermediate: 29_568 }
const TYPICAL_VOCABULARY = 131_072

/** Returns the typical shape of a language model of this size, for a base whose config.json has not been read. */
export function typicalShape(parameters: number): TuningShape {
  const { layers, hidden, intermediate } = TYPICAL.find((one) => parameters <= one.parameters) ?? LARGE
  return { parameters, layers, hidden, intermediate, vocabulary: TYPICAL_VOCABULARY }
}

/** Returns the typical shape of a text encoder of this size. */
export function typicalEncoder(parameters: number): TuningShape {
  const isLarge = parameters > 0.2e9
  const hidden = isLarge ? 1_024 : 768
  return { parameters, layers: isLarge ? 24 : 12, hidden, intermediate: 4 * hidden, vocabulary: 0 }
}
