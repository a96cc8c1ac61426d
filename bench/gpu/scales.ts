import type { TuningShape } from '../../domain/models/tuning-memory.ts'

/** The sizes of a run. */
export interface Scale {
  /** True if the figures mean something, so that a GPU is needed. */
  isReal: boolean
  /** Multiplies the time limit of each section. A CPU may be busy with other work. */
  patience: number
  llm: TuningShape & { heads: number; kvHeads: number }
  training: { length: number; microBatch: number; steps: number }
  chat: { clients: readonly number[]; tokens: number; promptTokens: number }
  embedder: { hidden: number; layers: number; heads: number; texts: number; dtype: 'bfloat16' | 'float32' }
  image: { size: 'small' | 'real'; side: number; steps: number }
}

/** The scales by the name for `--scale`. */
export const SCALES: Readonly<Record<string, Scale>> = {
  /** The shapes of Llama 3.2 1B, BERT base and Stable Diffusion 1.5. */
  '1b': {
    isReal: true,
    patience: 1,
    llm: {
      parameters: 1.24e9,
      layers: 16,
      hidden: 2_048,
      intermediate: 8_192,
      vocabulary: 128_000,
      heads: 32,
      kvHeads: 8,
    },
    training: { length: 2_048, microBatch: 4, steps: 8 },
    chat: { clients: [1, 16, 64], tokens: 64, promptTokens: 8_000 },
    embedder: { hidden: 768, layers: 12, heads: 12, texts: 512, dtype: 'bfloat16' },
    image: { size: 'real', side: 512, steps: 20 },
  },
  tiny: {
    isReal: false,
    patience: 3,
    llm: {
      parameters: 1e5,
      layers: 1,
      hidden: 32,
      intermediate: 64,
      vocabulary: 512,
      heads: 4,
      kvHeads: 2,
    },
    training: { length: 128, microBatch: 1, steps: 3 },
    chat: { clients: [1, 16, 64], tokens: 8, promptTokens: 8_000 },
    embedder: { hidden: 64, layers: 2, heads: 4, texts: 16, dtype: 'float32' },
    image: { size: 'small', side: 64, steps: 2 },
  },
}
