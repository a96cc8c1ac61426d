import { randomNumbers, type TinyCheckpoint } from './checkpoints.ts'

/** The models behind test/fixtures/merges/mergekit.json; a change here needs a new fixture. */
export const oracleModel = (seed: number): TinyCheckpoint => ({
  seed,
  hidden: 32,
  layers: 1,
  vocab: 40,
  spread: 0.4,
  config: { intermediate_size: 64, num_attention_heads: 4, num_key_value_heads: 4, rms_norm_eps: 1e-6 },
  change: (tensors) =>
    tensors.set('model.layers.0.post_attention_layernorm.weight', {
      shape: [32],
      dtype: 'BF16',
      values: randomNumbers(32, 77 + seed),
    }),
})
