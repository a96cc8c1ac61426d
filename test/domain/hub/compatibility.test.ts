import assert from 'node:assert/strict'
import {
  checkHubRepo,
  type HubRepoFacts,
  type CompatibilityContext,
} from '../../../domain/hub/compatibility.ts'
import { entersAs } from '../../../domain/models/lifecycle.ts'
import { kvCacheMb, readModelShape } from '../../../domain/models/shape.ts'
import { loadCatalog } from '../../../platform/catalog.ts'
import { retryAfter } from '../../../platform/hub/rate-limit-headers.ts'

const MB = 1024 * 1024
const QWEN = {
  hidden_size: 896,
  num_hidden_layers: 24,
  num_attention_heads: 14,
  num_key_value_heads: 2,
  intermediate_size: 4864,
  vocab_size: 151_936,
  max_position_embeddings: 32_768,
  tie_word_embeddings: true,
}

const repo = (overrides: Partial<HubRepoFacts> = {}): HubRepoFacts => ({
  repoId: 'acme/model',
  gated: false,
  licence: 'mit',
  pipelineTag: 'text-generation',
  architectures: ['Qwen2ForCausalLM'],
  modelType: 'qwen2',
  hasRemoteCode: false,
  params: null,
  ggufArchitecture: null,
  files: [
    { path: 'config.json', sizeBytes: 1 },
    { path: 'model.safetensors', sizeBytes: 1000 * MB },
    { path: 'pytorch_model.bin', sizeBytes: 1000 * MB },
    { path: 'sub/other.safetensors', sizeBytes: 1000 * MB },
  ],
  ...overrides,
})

const around = (overrides: Partial<CompatibilityContext> = {}): CompatibilityContext => ({
  task: 'text-generation',
  profiles: loadCatalog().profiles,
  largestNodeMb: 64_000,
  access: 'granted',
  pageUrl: 'https://hub.test/acme/model',
  shape: readModelShape(QWEN),
  shards: null,
  head: null,
  decoder: null,
  quantization: null,
  gguf: null,
  modules: null,
  ...overrides,
})

describe('checkHubRepo', () => {
  it('skips files in formats that Hearth does not load', () => {
    const { files, sizeBytes, compatibility } = checkHubRepo(repo(), around())

    assert.deepEqual(files, ['config.json', 'model.safetensors'])
    assert.equal(sizeBytes, 1000 * MB + 1)
    assert.equal(compatibility.status, 'compatible')
  })

  it("accepts a translator with both tokenizers' files, and rejects other architectures for translation", () => {
    const files = [
      'config.json',
      'model.safetensors',
      'vocab.json',
      'source.spm',
      'target.spm',
      'tf_model.h5',
    ]
    const check = (architecture: string, paths = files) =>
      checkHubRepo(
        repo({
          pipelineTag: 'translation',
          architectures: [architecture],
          files: paths.map((path) => ({ path, sizeBytes: MB })),
        }),
        around({ task: 'translation', shape: null }),
      )
    const marian = check('MarianMTModel')
    const failing = ({ compatibility }: ReturnType<typeof check>) =>
      compatibility.checks.flatMap(({ check: name, passed, message }) =>
        passed ? [] : [`${name}: ${message}`],
      )

    assert.equal(marian.compatibility.runtime_profile_id, 'specialist-torch')
    assert.deepEqual(marian.files, files.slice(0, -1))
    assert.match(failing(check('BertModel')).join(), /architecture: BertModel is not a translation model/)
    assert.match(failing(check('MarianMTModel', ['config.json', 'onnx/model.onnx'])).join(), /weights: /)
    const speech = {
      pipelineTag: 'automatic-speech-recognition',
      architectures: ['WhisperForConditionalGeneration'],
    }
    const whisper = checkHubRepo(repo(speech), around({ task: 'stt', shape: null }))
    assert.equal(whisper.compatibility.runtime_profile_id, 'specialist-whisper')
  })

  it('picks one file out of several quantizations', () => {
    const quantized = ['a-Q2_K.gguf', 'a-Q4_K_M.gguf', 'a-Q8_0.gguf']
    const { files, compatibility } = checkHubRepo(
      repo({ files: quantized.map((path) => ({ path, sizeBytes: MB })), architectures: [] }),
      around({ shape: null }),
    )

    assert.deepEqual(files, ['a-Q4_K_M.gguf'])
    // GPU nodes choose the engine for GPUs themselves; a model registered with it would wait for a GPU.
    assert.equal(compatibility.runtime_profile_id, 'llm-llamacpp')
  })

  it('picks vLLM for a quantization that only it reads, not a server for GGUF files', () => {
    const { compatibility } = checkHubRepo(repo(), around({ quantization: 'awq' }))

    assert.match(compatibility.runtime_profile_id ?? '', /^llm-vllm/)
  })

  it("rejects an encoder's GGUF for text generation", () => {
    const files = [{ path: 'a.gguf', sizeBytes: MB }]
    const { compatibility } = checkHubRepo(
      repo({ files, architectures: [], ggufArchitecture: 'nomic-bert' }),
      around({ shape: null }),
    )

    assert.equal(compatibility.runtime_profile_id, null)
    assert.match(
      compatibility.checks.find(({ passed }) => !passed)?.message ?? '',
      /The GGUF \(nomic-bert\) is an encoder, but text-generation needs a model that generates text/,
    )
  })

  describe('a split GGUF', () => {
    const gguf = (paths: readonly string[]) =>
      checkHubRepo(
        repo({
          files: paths.map((path, i) => ({ path, sizeBytes: (i + 1) * MB })),
          architectures: [],
        }),
        around({ shape: null }),
      )
    const weightsOf = ({ compatibility }: ReturnType<typeof gguf>) =>
      compatibility.checks.find(({ check }) => check === 'weights')

    it('is used with all parts of one quantization and their total size', () => {
      const parts = ['big-Q6_K-00001-of-00002.gguf', 'big-Q6_K-00002-of-00002.gguf']
      const { files, sizeBytes, compatibility, requirements } = gguf(parts)

      assert.deepEqual(files, parts)
      assert.equal(sizeBytes, 3 * MB)
      assert.equal(compatibility.status, 'compatible')
      assert.ok((requirements.vram_mb ?? 0) > (gguf(['small-Q6_K.gguf']).requirements.vram_mb ?? 0))
    })

    it('does not change the preference for the middle quantization', () => {
      const split = [
        'Q4_K_M/m-00001-of-00003.gguf',
        'Q4_K_M/m-00002-of-00003.gguf',
        'Q4_K_M/m-00003-of-00003.gguf',
      ]

      assert.deepEqual(gguf(['m-Q8_0.gguf', ...split, 'mmproj-Q4_K_M.gguf']).files, split)
      assert.deepEqual(gguf(['q8_0-00001-of-00001.gguf', 'm-Q4_0.gguf', ...split.slice(1)]).files, [
        'm-Q4_0.gguf',
      ])
    })

    it('is rejected with the name of the missing part, unless another quantization is complete', () => {
      const parts = ['a-Q4_0-00001-of-00004.gguf', 'a-Q4_0-00003-of-00004.gguf', 'a-Q4_0-00004-of-00004.gguf']
      const broken = gguf(parts)

      assert.equal(broken.compatibility.status, 'incompatible')
      assert.equal(weightsOf(broken)?.passed, false)
      assert.match(weightsOf(broken)?.message ?? '', /lacks a-Q4_0-00002-of-00004\.gguf/)
      assert.deepEqual(gguf([...parts, 'a-Q2_K.gguf']).files, ['a-Q2_K.gguf'])
      assert.equal(gguf([...parts, 'a-Q2_K.gguf']).compatibility.status, 'compatible')
    })
  })

  it('requires every shard named by the index or implied by the shard names', () => {
    const shard = (part: number) => `model-0000${part}-of-00003.safetensors`
    const judge = (paths: readonly string[], shards: readonly string[] | null) =>
      checkHubRepo(repo({ files: paths.map((path) => ({ path, sizeBytes: MB })) }), around({ shards }))
    const index = 'model.safetensors.index.json'
    const all = [shard(1), shard(2), shard(3)]
    const refusal = ({ compatibility }: ReturnType<typeof judge>) =>
      compatibility.checks.find(({ passed }) => !passed)?.message ?? ''

    assert.equal(judge([index, ...all], all).compatibility.status, 'compatible')
    assert.equal(judge(['model.safetensors', index], null).compatibility.status, 'compatible')
    assert.match(
      refusal(judge([index, shard(1), shard(3)], all)),
      /lacks model-00002-of-00003\.safetensors\.$/,
    )
    assert.match(
      refusal(judge([index, shard(3)], null)),
      /lacks model-00001-of-00003\.safetensors and 1 more/,
    )
    assert.match(
      refusal(judge([index, 'odd.safetensors'], ['odd.safetensors', 'b.safetensors'])),
      /b\.safetensors/,
    )
    assert.match(refusal(judge(all, null)), /lacks model\.safetensors\.index\.json/)
  })

  it('fetches and counts weights once when the repository also has them in another layout', () => {
    const judge = (paths: readonly string[], shards: readonly string[] | null = null) =>
      checkHubRepo(repo({ files: paths.map((path) => ({ path, sizeBytes: 100 * MB })) }), around({ shards }))
    const split = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors']
    const index = 'model.safetensors.index.json'
    const other = ['consolidated.safetensors', 'consolidated-00001-of-00001.safetensors']
    const fetched = (paths: readonly string[], shards?: readonly string[]) =>
      judge(paths, shards).files.filter((path) => path !== index)

    assert.deepEqual(fetched([...other, index, ...split], split), split)
    assert.deepEqual(fetched([...other, index, ...split]), split)
    assert.deepEqual(fetched(['lora.safetensors', 'model.safetensors']), ['model.safetensors'])
    assert.equal(judge([...other, index, ...split]).compatibility.status, 'compatible')
    const alone = judge(['consolidated.safetensors'])
    assert.equal(alone.compatibility.status, 'incompatible')
    assert.match(
      alone.compatibility.checks.find(({ passed }) => !passed)?.message ?? '',
      /lacks model\.safetensors\.$/,
    )
  })

  it('rejects a model that fits on no node', () => {
    const { compatibility } = checkHubRepo(repo(), around({ largestNodeMb: 500 }))

    assert.equal(compatibility.status, 'incompatible')
    assert.match(compatibility.checks.find(({ passed }) => !passed)?.message ?? '', /largest node has 500 MB/)
  })

  it("finds no profile for an architecture that isn't a language model", () => {
    const { compatibility } = checkHubRepo(repo({ architectures: ['BertForMaskedLM'] }), around())

    assert.equal(compatibility.runtime_profile_id, null)
    assert.equal(compatibility.status, 'incompatible')
  })

  it('estimates parameters within 10% from the config, and the memory of its KV cache', () => {
    const shape = readModelShape(QWEN)

    assert.ok(shape)
    assert.ok(Math.abs((shape.params ?? 0) - 494e6) < 49e6, String(shape.params))
    assert.equal(kvCacheMb(shape), 96)
    assert.equal(readModelShape({ model_type: 'resnet' }), null)
    const { max_position_embeddings: length, ...unnamed } = QWEN
    assert.equal(readModelShape({ ...unnamed, max_seq_len: length })?.context, length)
  })
})

describe('a lifecycle', () => {
  it('starts as a candidate for merged and retrained models only', () => {
    assert.equal(entersAs('training', null), 'ready')
    assert.equal(entersAs('training', { type: 'hf' }), 'ready')
    assert.equal(entersAs('training', { type: 'model_version' }), 'candidate')
    assert.equal(entersAs('training', { type: 'storage' }), 'candidate')
    assert.equal(entersAs('merge', null), 'candidate')
  })
})

describe('a rate limit', () => {
  it('is read from either header', () => {
    const now = Date.parse('2030-01-01T00:00:00Z')

    assert.equal(retryAfter({ 'retry-after': '7' }, now), 7)
    assert.equal(retryAfter({ 'retry-after': 'Tue, 01 Jan 2030 00:00:09 GMT' }, now), 9)
    assert.equal(retryAfter({ ratelimit: '"resolvers";r=0;t=87' }, now), 87)
    assert.equal(retryAfter({}, now), undefined)
  })
})
