import assert from 'node:assert/strict'
import { builtInSpaces, type ModelFacts } from '../../../domain/cohorts/spaces/built-in-spaces.ts'

const DIGEST = 'ab'.repeat(32)
const facts = (overrides: Partial<ModelFacts>): ModelFacts => ({
  taskType: 'embeddings',
  framework: 'onnxruntime',
  files: [{ path: 'config.json', sha256: DIGEST }],
  configs: { 'config.json': { hidden_size: 64 } },
  ...overrides,
})
const MODULES = [
  { type: 'sentence_transformers.models.Transformer', path: '' },
  { type: 'sentence_transformers.models.Pooling', path: '1_Pooling' },
]
const withPooling = (pooling: object, ...more: object[]) =>
  facts({
    configs: {
      'config.json': { hidden_size: 64 },
      'modules.json': [...MODULES, ...more],
      '1_Pooling/config.json': pooling,
    },
  })
const output = (of: ModelFacts) => builtInSpaces(of).find(({ name }) => name === 'output')

describe('builtInSpaces', () => {
  it('derives text and embedding spaces for an encoder from its pooling layout', () => {
    const cls = output(withPooling({ pooling_mode_cls_token: true }))
    const mean = output(withPooling({ pooling_mode: 'mean' }, { type: 'x.Normalize', path: '2' }))

    assert.deepEqual(
      builtInSpaces(facts({})).map(({ name, role, kind }) => [name, role, kind]),
      [
        ['text', 'accepts', 'text'],
        ['output', 'produces', 'embedding'],
      ],
    )
    assert.deepEqual([cls?.pooling, cls?.normalized, cls?.dimensions, cls?.dtype], ['cls', false, 64, 'f32'])
    assert.deepEqual([mean?.pooling, mean?.normalized], ['mean', true])
    assert.deepEqual([output(facts({}))?.pooling, output(facts({}))?.normalized], ['mean', true])
  })

  it("omits the embedding space when the files don't determine the pooling", () => {
    const unsure = [
      withPooling({ pooling_mode_cls_token: true, pooling_mode_mean_tokens: true }),
      withPooling({ pooling_mode_max_tokens: true }),
      withPooling({ pooling_mode: 'max' }),
      facts({ configs: {} }),
    ]

    assert.deepEqual(unsure.map(output), [undefined, undefined, undefined, undefined])
  })

  it('derives text and token spaces for a language model, with tokens tied to its tokenizer', () => {
    const files = [{ path: 'tokenizer.json', sha256: DIGEST }]
    const [text, tokens] = builtInSpaces(facts({ taskType: 'chat', files }))

    assert.deepEqual([text?.kind, text?.role], ['text', 'both'])
    assert.equal(tokens?.tokenizer_digest, DIGEST)
    assert.equal(builtInSpaces(facts({ taskType: 'chat', files: [] })).length, 1)
  })

  it('derives a cache space for a language model whose config describes the cache', () => {
    const config = {
      dtype: 'bfloat16',
      num_hidden_layers: 4,
      num_attention_heads: 8,
      num_key_value_heads: 2,
      hidden_size: 256,
      rope_theta: 500_000,
    }
    const files = [{ path: 'tokenizer.json', sha256: DIGEST }]
    const cacheOf = (more: object, given = files) =>
      builtInSpaces(
        facts({
          taskType: 'chat',
          framework: 'transformers',
          files: given,
          configs: { 'config.json': { ...config, ...more } },
        }),
      ).find(({ name }) => name === 'kv')

    assert.deepEqual(cacheOf({}), {
      name: 'kv',
      role: 'both',
      kind: 'kv_cache',
      dtype: 'bf16',
      tokenizer_digest: DIGEST,
      engine: {
        name: 'transformers',
        format: 'dynamic',
        layers: 4,
        kv_heads: 2,
        head_dim: 32,
        rope: 'default 500000',
      },
    })
    assert.equal(cacheOf({ head_dim: 64 })?.engine?.head_dim, 64)
    assert.equal(cacheOf({ layer_types: ['linear_attention', 'full_attention'] }), undefined)
    assert.equal(cacheOf({ kv_lora_rank: 512 }), undefined)
    assert.equal(cacheOf({ dtype: 'auto' }), undefined)
    assert.equal(cacheOf({ hidden_size: undefined }), undefined)
    assert.equal(cacheOf({}, []), undefined)
  })

  it('derives a cache space for a GGUF, whose file also serves as its tokenizer', () => {
    const numbers = {
      'llama.block_count': 2,
      'llama.attention.head_count': 4,
      'llama.attention.head_count_kv': 2,
      'llama.embedding_length': 64,
    }
    const gguf = { head: { architecture: 'llama', numbers, lists: {} }, sha256: DIGEST }
    const of = (given: ModelFacts['gguf']) =>
      builtInSpaces(facts({ taskType: 'chat', framework: 'llama.cpp', files: [], gguf: given })).find(
        ({ name }) => name === 'kv',
      )

    assert.deepEqual(of(gguf)?.engine, {
      name: 'llamacpp',
      format: 'llama-state',
      layers: 2,
      kv_heads: 2,
      head_dim: 16,
      rope: 'llama 10000',
    })
    assert.equal(of(gguf)?.tokenizer_digest, DIGEST)
    assert.equal(of({ ...gguf, head: { ...gguf.head, architecture: 'rwkv' } }), undefined)
  })

  it('derives JSON spaces for a tabular model, and none for an unknown one', () => {
    const table = builtInSpaces(facts({ taskType: 'classification', framework: 'lightgbm' }))

    assert.deepEqual(
      table.map(({ name, kind }) => [name, kind]),
      [
        ['input', 'json'],
        ['output', 'json'],
      ],
    )
    assert.deepEqual(builtInSpaces(facts({ taskType: 'something else' })), [])
  })

  it('derives the input and output spaces of the other task types from their requests', () => {
    const describeSpaces = (taskType: string) =>
      builtInSpaces(facts({ taskType })).map(({ name, role, kind, content_types }) =>
        [name, role, kind, ...(content_types ?? [])].join(' '),
      )
    const text = 'input accepts text'
    const picture = 'image accepts media image/png image/jpeg image/webp'

    assert.deepEqual(describeSpaces('rerank'), [text, 'output produces json'])
    assert.deepEqual(describeSpaces('moderation'), [text, 'output produces json'])
    assert.deepEqual(describeSpaces('classification'), [text, 'output produces json'])
    assert.deepEqual(describeSpaces('translation'), [text, 'output produces text'])
    assert.deepEqual(describeSpaces('ocr'), [picture, 'output produces text'])
    assert.deepEqual(describeSpaces('stt'), [
      'audio accepts media audio/wav audio/mpeg audio/mp4 audio/ogg audio/flac',
      'output produces text',
    ])
    assert.deepEqual(describeSpaces('text-to-speech'), [text, 'output produces media audio/wav'])
    assert.deepEqual(describeSpaces('image-to-image'), [picture, text, 'output produces media image/png'])
    assert.deepEqual(describeSpaces('image-to-3d'), [picture, 'output produces media model/gltf-binary'])
  })
})
