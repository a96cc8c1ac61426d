import assert from 'node:assert/strict'
import {
  encoderRepo,
  json,
  llamaRepo,
  MODULES,
  safetensors,
} from '../../../../support/builders/models/hub-repos.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'
import { type HubRepo, startHub, type TestHub } from '../../../../support/servers/hub-server.ts'

/** A repository of GGUF files, truncated within the vocabulary; a chat model declares no pooling. */
function ggufRepo(repoId: string, architecture: string, pooling?: number): HubRepo {
  const text = (value: string) => Buffer.concat([number(value.length, 8), Buffer.from(value)])
  const settings = [
    Buffer.concat([text('general.architecture'), number(8, 4), text(architecture)]),
    Buffer.concat([text('general.tags'), number(9, 4), number(8, 4), number(2, 8), text('a'), text('b')]),
    ...(pooling === undefined
      ? []
      : [Buffer.concat([text(`${architecture}.pooling_type`), number(4, 4), number(pooling, 4)])]),
    Buffer.concat([
      text('tokenizer.ggml.tokens'),
      number(9, 4),
      number(8, 4),
      number(30_000, 8),
      text('[PAD]'),
    ]),
  ]
  const head = [Buffer.from('GGUF'), number(3, 4), number(0, 8), number(settings.length, 8)]
  const bytes = Buffer.concat([...head, ...settings, Buffer.alloc(100_000, 'a')])
  return {
    repoId,
    files: { 'README.md': Buffer.from('# quantized'), 'm-Q2_K.gguf': bytes, 'm-Q4_K_M.gguf': bytes },
    licence: 'apache-2.0',
    pipelineTag: 'sentence-similarity',
  }
}

function number(value: number, bytes: 4 | 8): Buffer {
  const buffer = Buffer.alloc(bytes)
  buffer.writeUInt32LE(value)
  return buffer
}

/** A repository of a text-generating model that contains the files of several tokenizers. */
const writerRepo = (repoId: string, config: object, pipelineTag: string): HubRepo => ({
  repoId,
  files: {
    'config.json': json(config),
    'model.safetensors': safetensors(1_000),
    'pytorch_model.bin': Buffer.alloc(10),
    'preprocessor_config.json': json({}),
    'processor_config.json': json({}),
    'sentencepiece.bpe.model': Buffer.alloc(9),
    'source.spm': Buffer.alloc(9),
    'README.md': Buffer.from('# a writer'),
  },
  licence: 'apache-2.0',
  pipelineTag,
})
const readerOf = (decoder: string) => ({
  architectures: ['VisionEncoderDecoderModel'],
  model_type: 'vision-encoder-decoder',
  decoder: { model_type: decoder },
})

const labels = (count: number) => ({
  id2label: Object.fromEntries(Array.from({ length: count }, (_, i) => [i, `l${i}`])),
})
const CLASSIFIER = { architectures: ['DistilBertForSequenceClassification'], ...labels(3) }
const RERANKER = { architectures: ['XLMRobertaForSequenceClassification'], ...labels(1) }

describe('specialists on the hub', () => {
  let hub: TestHub
  let api: TestApi
  let key: string
  before(async () => {
    const bert = { architectures: ['BertModel'] }
    const dense = { type: 'sentence_transformers.models.Dense', path: '2_Dense' }
    const { 'model.safetensors': _weights, ...withoutWeights } = encoderRepo('', bert).files
    hub = await startHub(
      encoderRepo('acme/embedder', bert),
      encoderRepo('acme/only-onnx', bert, { files: withoutWeights }),
      encoderRepo('acme/dense', bert, {
        files: { ...encoderRepo('', bert).files, 'modules.json': json([...MODULES, dense]) },
      }),
      encoderRepo('acme/classifier', CLASSIFIER, { pipelineTag: 'text-classification' }),
      encoderRepo('acme/reranker', RERANKER, { pipelineTag: 'text-ranking', downloads: 50 }),
      writerRepo('acme/marian', { architectures: ['MarianMTModel'] }, 'translation'),
      writerRepo('acme/trocr', readerOf('trocr'), 'image-to-text'),
      writerRepo('acme/captions', readerOf('gpt2'), 'image-to-text'),
      writerRepo('acme/whisper', { architectures: ['WhisperForConditionalGeneration'] }, 'speech'),
      llamaRepo('acme/llama'),
      ggufRepo('acme/gguf-embedder', 'bert', 2),
      ggufRepo('acme/gguf-reranker', 'bert', 4),
      ggufRepo('acme/gguf-chat', 'llama'),
      encoderRepo('acme/long', { architectures: ['LongformerModel'] }, { pipelineTag: 'feature-extraction' }),
    )
    api = await startApi({ env: { HEARTH_HUB_ENDPOINT: hub.url } })
    ;({ key } = await api.account())
  })
  after(async () => {
    await api[Symbol.asyncDispose]()
    await hub[Symbol.asyncDispose]()
  })

  const register = (repo_id: string, task_type: string) =>
    api.call('POST', '/api/builder/v1/models/hf/register', { key, body: { repo_id, task_type } })

  /** Registers a repository for a task whose inputs have this field, and returns the imported rows. */
  async function imported(repo: string, task: string, field: string) {
    const { status, body, text } = await register(repo, task)
    assert.equal(status, 201, text)
    const endpoint = await api.call('GET', `/api/builder/v1/endpoints/${body.endpoint_id}`, { key })
    assert.equal(endpoint.body.task_type, task)
    assert.ok(field in endpoint.body.input_schema.properties)
    assert.deepEqual(body.test_request.body.input, endpoint.body.example_input)
    const files = await api.database.db
      .selectFrom('model_version')
      .innerJoin('version_file', 'version_file.version_id', 'model_version.id')
      .select(['runtime_profile', 'path'])
      .where('model_version.id', '=', body.version_id)
      .orderBy('path')
      .execute()
    return { profile: files[0]?.runtime_profile, paths: files.map(({ path }) => path) }
  }

  it('are imported with the files of their layout, and listed with their inputs and outputs', async () => {
    for (const [repo, task, field] of [
      ['acme/embedder', 'embeddings', 'text'],
      ['acme/classifier', 'moderation', 'text'],
      ['acme/reranker', 'rerank', 'documents'],
    ] as const) {
      const { profile, paths } = await imported(repo, task, field)

      assert.equal(profile, 'specialist-onnx')
      assert.deepEqual(paths, [
        '1_Pooling/config.json',
        'config.json',
        'config_sentence_transformers.json',
        'model.safetensors',
        'modules.json',
        'onnx/model.onnx',
        'sentence_bert_config.json',
        'tokenizer.json',
        'vocab.txt',
      ])
    }
    assert.equal((await register('acme/only-onnx', 'embeddings')).status, 201)
  })

  it("are imported with their processors' files when they generate text from text, images and audio", async () => {
    for (const [repo, task, wanted, field] of [
      ['acme/marian', 'translation', 'specialist-torch', 'text'],
      ['acme/trocr', 'ocr', 'specialist-torch', 'image_url'],
      ['acme/whisper', 'stt', 'specialist-whisper', 'audio_url'],
      ['acme/llama', 'text-generation', 'llm-transformers', 'messages'],
    ] as const) {
      const { profile, paths } = await imported(repo, task, field)

      assert.equal(profile, wanted)
      if (task === 'text-generation') continue
      assert.deepEqual(paths, [
        'config.json',
        'model.safetensors',
        'preprocessor_config.json',
        'processor_config.json',
        'sentencepiece.bpe.model',
        'source.spm',
      ])
    }
  })

  it("are imported from GGUF files when there are no others, for the task of the GGUF's head", async () => {
    for (const [repo, task, field] of [
      ['acme/gguf-embedder', 'embeddings', 'text'],
      ['acme/gguf-reranker', 'rerank', 'documents'],
    ] as const) {
      assert.deepEqual(await imported(repo, task, field), {
        profile: 'specialist-llamacpp',
        paths: ['m-Q4_K_M.gguf'],
      })
    }
  })

  it('are rejected for a task of another kind, with the failing check', async () => {
    for (const [repo, task, reason] of [
      ['acme/classifier', 'embeddings', /has a head for another task/],
      ['acme/classifier', 'rerank', /has 3 labels, but a reranker must have exactly one/],
      ['acme/reranker', 'moderation', /has one label and is a reranker/],
      ['acme/embedder', 'moderation', /has no classification head/],
      ['acme/embedder', 'text-generation', /No runtime profile on this platform serves BertModel/],
      ['acme/long', 'embeddings', /LongformerModel is not a text encoder/],
      ['acme/dense', 'embeddings', /requires the module Dense/],
      ['acme/gguf-embedder', 'rerank', /The GGUF \(bert\) has no ranking head, which rerank needs/],
      ['acme/gguf-reranker', 'embeddings', /The GGUF \(bert\) is a reranker and produces no embeddings/],
      ['acme/gguf-chat', 'rerank', /The GGUF \(llama\) has no ranking head/],
      ['acme/gguf-chat', 'embeddings', /The GGUF \(llama\) declares no pooling/],
      ['acme/gguf-embedder', 'moderation', /No runtime profile on this platform serves/],
      ['acme/whisper', 'translation', /is not a translation model/],
      ['acme/marian', 'ocr', /MarianMTModel is not an OCR model/],
      ['acme/captions', 'ocr', /with a gpt2 decoder is not an OCR model/],
      ['acme/trocr', 'stt', /is not a Whisper model/],
      ['acme/llama', 'embeddings', /LlamaForCausalLM is not a text encoder/],
    ] as const) {
      // An existing import is returned again, so a rejection needs an account without one.
      const other = await api.account()
      const { status, body } = await api.call('POST', '/api/builder/v1/models/hf/register', {
        key: other.key,
        body: { repo_id: repo, task_type: task },
      })

      assert.equal(status, 422)
      assert.equal(body.detail[0].type, 'hub_architecture')
      assert.match(body.error.message, reason)
    }
  })

  it('are found under each of their tags', async () => {
    const { body } = await api.call('POST', '/api/builder/v1/models/hf/search', {
      key,
      body: { query: 'acme', task_type: 'embeddings', only_supported: true },
    })
    const found = body.results.map((entry: { repo_id: string }) => entry.repo_id).toSorted()

    assert.deepEqual(found, [
      'acme/dense',
      'acme/embedder',
      'acme/gguf-chat',
      'acme/gguf-embedder',
      'acme/gguf-reranker',
      'acme/only-onnx',
    ])
  })
})
