import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { AdminClient } from '../../cli/admin-client.ts'
import { type CliError, WRONG_USE } from '../../cli/cli-error.ts'
import { importModel } from '../../cli/commands/models.ts'
import { writeTinyGguf } from '../../embedded/demo/tiny-gguf.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { BARE_ENV } from '../support/compile-cache.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../support/servers/api.ts'

const LFS_POINTER = 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n'

const UNKNOWN = /Unknown task type embedding; known: chat, code, text-generation, embeddings, rerank, /

const CONFIG = { architectures: ['LlamaForCausalLM'], model_type: 'llama' }
const quantized = (quant_method: string) => ({
  'config.json': { ...CONFIG, quantization_config: { quant_method, bits: 4 } },
  'tokenizer.json': {},
})

/** The files that describe a model; all models also have weights. */
const MODELS = {
  gptq: quantized('gptq'),
  compressed: quantized('compressed-tensors'),
  'not-quantized': quantized('bitsandbytes'),
  foreign: { 'config.json': { ...CONFIG, model_type: 'foobar' }, 'tokenizer.json': {} },
  untokenized: { 'config.json': CONFIG },
  pointer: { 'config.json': CONFIG, 'tokenizer.json': {}, 'model.safetensors': LFS_POINTER },
  cut: { 'config.json': CONFIG, 'tokenizer.json': {}, 'model.safetensors': 'cut' },
  page: { 'config.json': CONFIG, 'tokenizer.json': {}, 'model.safetensors': '<!doctype html>' },
  'null-head': { 'config.json': CONFIG, 'tokenizer.json': {}, 'model.safetensors': 'head:null' },
  'list-head': { 'config.json': CONFIG, 'tokenizer.json': {}, 'model.safetensors': 'head:[1]' },
  'number-head': { 'config.json': CONFIG, 'tokenizer.json': {}, 'model.safetensors': 'head:7' },
  'null-tensor': { 'config.json': CONFIG, 'tokenizer.json': {}, 'model.safetensors': 'head:{"a":null}' },
  'null-config': { 'config.json': 'null', 'tokenizer.json': {} },
  'list-config': { 'config.json': [CONFIG], 'tokenizer.json': {} },
  'list-shards': { 'config.json': CONFIG, 'tokenizer.json': {}, 'model.safetensors.index.json': [] },
  'object-modules': { 'config.json': { architectures: ['BertModel'] }, 'modules.json': {} },
  pickled: { 'config.json': CONFIG, 'tokenizer.json': {}, 'model.safetensors': 'none' },
  sharded: {
    'config.json': CONFIG,
    'tokenizer.json': {},
    'model.safetensors': 'none',
    'model-00001-of-00002.safetensors': 'whole',
    'model.safetensors.index.json': {
      weight_map: { a: 'model-00001-of-00002.safetensors', b: 'model-00002-of-00002.safetensors' },
    },
  },
  embedder: { 'config.json': { architectures: ['BertModel'] }, 'tokenizer.json': {} },
  ranker: { 'config.json': { architectures: ['BertForSequenceClassification'], id2label: { 0: 'LABEL_0' } } },
  whisper: { 'config.json': { architectures: ['WhisperForConditionalGeneration'] } },
  nllb: { 'config.json': { architectures: ['M2M100ForConditionalGeneration'] } },
  chat: { 'config.json': CONFIG, 'tokenizer.json': {} },
  seeing: { 'config.json': { architectures: ['Gemma3ForConditionalGeneration'] }, 'tokenizer.json': {} },
  voices: { 'config.json': { architectures: ['VitsModel'], model_type: 'vits' } },
  pictures: {
    'model_index.json': { _class_name: 'StableDiffusionPipeline' },
    'unet/config.json': { _class_name: 'UNet2DConditionModel' },
  },
  odd: { 'model_index.json': { _class_name: 'OddPipeline' } },
  unreadable: { 'config.json': {}, 'modules.json': 'text' },
  own: { 'config.json': { architectures: ['WordVectors'] }, 'onnx/model.onnx': {} },
  dense: {
    'config.json': { architectures: ['BertModel'] },
    'modules.json': [{ type: 'sentence_transformers.models.Dense' }],
  },
} as const

interface ImportOptions {
  task?: string
  profile?: string
}

const REFUSED: readonly [model: string, asked: ImportOptions, words: RegExp][] = [
  ['embedder', { task: 'embedding' }, UNKNOWN],
  ['embedder', { task: 'embedding', profile: 'llm-transformers' }, /no such task type; known: .*rerank/],
  [
    'embedder',
    { task: 'embeddings', profile: 'llm-transformers' },
    /llm-transformers serves chat, code, text-generation/,
  ],
  ['embedder', { task: 'embeddings', profile: 'odd' }, /no such runtime profile; known: .*specialist-onnx/],
  ['embedder', {}, /BertModel is not a causal language model \(ForCausalLM, LMHeadModel\), which chat needs/],
  ['embedder', { profile: 'llm-vllm' }, /BertModel is not a causal language model/],
  ['embedder', { task: 'rerank' }, /BertModel has no classification head, which rerank needs/],
  [
    'embedder',
    { task: 'classification' },
    /BertModel has no classification head, which classification needs/,
  ],
  ['embedder', { task: 'text-to-speech' }, /config\.json names the model type none, which does not serve/],
  ['embedder', { task: 'regression' }, /The runtime profile tabular needs manifest\.json, which is missing/],
  ['ranker', { task: 'embeddings' }, /has a head for another task and produces no embeddings/],
  ['ranker', { task: 'moderation' }, /has one label and is a reranker, but moderation needs classes/],
  ['whisper', { task: 'ocr' }, /WhisperForConditionalGeneration is not an OCR model/],
  ['nllb', { task: 'stt' }, /M2M100ForConditionalGeneration is not a Whisper model/],
  ['nllb', { task: 'embeddings' }, /M2M100ForConditionalGeneration is not a text encoder/],
  ['seeing', {}, /Gemma3ForConditionalGeneration is not a causal language model/],
  ['chat', { task: 'translation' }, /LlamaForCausalLM is not a translation model/],
  ['voices', { task: 'text-to-audio' }, /The model type vits serves text-to-speech, not text-to-audio/],
  [
    'pictures',
    { task: 'text-to-speech' },
    /StableDiffusionPipeline serves text-to-image and image-to-image, not/,
  ],
  ['pictures', {}, /StableDiffusionPipeline serves text-to-image and image-to-image, not chat/],
  [
    'pictures',
    { task: 'stt' },
    /The runtime profile specialist-whisper needs config\.json, which is missing/,
  ],
  ['odd', { task: 'text-to-image' }, /names the pipeline OddPipeline, which is not supported here/],
  ['unreadable', { task: 'embeddings' }, /modules\.json is not valid model JSON/],
  ['dense', { task: 'embeddings' }, /modules\.json requires the module Dense/],
  ['own', { task: 'embeddings', profile: 'specialist-torch' }, /WordVectors is not a text encoder/],
  ['chat.gguf', { task: 'embeddings', profile: 'specialist-onnx' }, /needs config\.json, which is missing/],
  ['chat.gguf', { task: 'embeddings' }, /The GGUF \(llama\) declares no pooling/],
  ['chat.gguf', { task: 'rerank', profile: 'specialist-llamacpp' }, /The GGUF \(llama\) has no ranking head/],
  [
    'gptq',
    {},
    /quantized with gptq, which the runtime profile llm-transformers cannot read: use llm-vllm on a GPU/,
  ],
  ['compressed', {}, /quantized with compressed-tensors, which/],
  ['not-quantized', {}, /declares bitsandbytes quantization, but the weights are not quantized/],
  ['foreign', {}, /names the model type "foobar", which is not a causal language model that/],
  ['untokenized', {}, /has no tokenizer \(tokenizer\.json or tokenizer\.model\)/],
  ['pointer', {}, /model\.safetensors is a Git LFS pointer, .* run `git lfs pull`/],
  ['cut', {}, /model\.safetensors has \d+ bytes but its header describes \d+: it is truncated/],
  ['page', {}, /model\.safetensors is not a valid safetensors file/],
  ['null-head', {}, /model\.safetensors is not a valid safetensors file/],
  ['list-head', {}, /model\.safetensors is not a valid safetensors file/],
  ['number-head', {}, /model\.safetensors is not a valid safetensors file/],
  ['null-tensor', {}, /model\.safetensors is not a valid safetensors file/],
  ['null-config', {}, /config\.json is not valid model JSON: expected an object/],
  ['list-config', {}, /config\.json is not valid model JSON: expected an object/],
  ['list-shards', {}, /model\.safetensors\.index\.json is not valid model JSON: expected an object/],
  ['object-modules', { task: 'embeddings' }, /modules\.json is not valid model JSON: expected a list/],
  ['pickled', {}, /no \.safetensors weights; other formats can run code/],
  ['sharded', {}, /weights are incomplete: model-00002-of-00002\.safetensors is missing/],
  ['bert.gguf', {}, /The GGUF \(bert\) is an encoder, but chat needs a model that generates text/],
  ['empty.gguf', {}, /empty\.gguf is not a GGUF file/],
  ['clip.gguf', {}, /The GGUF \(clip\) is an encoder, but chat needs a model that generates text/],
  ['head-cut.gguf', {}, /head-cut\.gguf has 3000 bytes and ends within its header: it is truncated/],
  ['data-cut.gguf', {}, /data-cut\.gguf has \d+ bytes but its header describes \d+: it is truncated/],
  ['byte-cut.gguf', {}, /byte-cut\.gguf has \d+ bytes but its header describes \d+: it is truncated/],
  ['version-9.gguf', {}, /version-9\.gguf has version 9 of the GGUF format, but llama\.cpp reads 2 and 3/],
  [
    'chat',
    { profile: 'llm-llamacpp' },
    /The runtime profile llm-llamacpp needs a \.gguf file, which is missing/,
  ],
]

const TAKEN: readonly [model: string, asked: ImportOptions, profile: string][] = [
  ['chat', {}, 'llm-transformers'],
  ['gptq', { profile: 'llm-vllm' }, 'llm-vllm'],
  ['seeing', { profile: 'llm-vllm' }, 'llm-vllm'],
  ['chat.gguf', {}, 'llm-llamacpp'],
  ['embedder', { task: 'embeddings' }, 'specialist-onnx'],
  ['ranker', { task: 'rerank' }, 'specialist-onnx'],
  ['ranker', { task: 'classification' }, 'specialist-onnx'],
  ['nllb', { task: 'translation' }, 'specialist-torch'],
  ['whisper', { task: 'stt' }, 'specialist-whisper'],
  ['voices', { task: 'text-to-speech' }, 'generative-torch'],
  ['pictures', { task: 'image-to-image' }, 'generative-torch'],
  ['own', { task: 'embeddings' }, 'specialist-onnx'],
]

/** Weights are `whole` with one tensor of 4 bytes, `cut` before that tensor, or have the header given after `head:`. */
function bytesOf(content: unknown): string | Buffer {
  const given = typeof content === 'string' && content.startsWith('head:') ? content.slice(5) : undefined
  if (content !== 'whole' && content !== 'cut' && given === undefined)
    return typeof content === 'string' ? content : JSON.stringify(content)
  const head = given ?? JSON.stringify({ a: { dtype: 'F32', shape: [1], data_offsets: [0, 4] } })
  const bytes = Buffer.alloc(8 + head.length + (content === 'whole' ? 4 : 0))
  bytes.writeBigUInt64LE(BigInt(head.length))
  bytes.write(head, 8)
  return bytes
}

const wordsOf = ({ task, profile }: ImportOptions) =>
  [task ?? 'no task', ...(profile === undefined ? [] : [profile])].join(' on ')

describe('hearth models import', function () {
  this.timeout(120_000)
  const folder = temporaryFolder()
  let api: TestApi
  let accountId: string
  before(async () => {
    api = await startApi()
    accountId = (await api.account()).accountId
    for (const [name, files] of Object.entries(MODELS)) {
      for (const [path, content] of Object.entries({ 'model.safetensors': 'whole', ...files })) {
        const file = join(folder.path, name, path)
        await mkdir(dirname(file), { recursive: true })
        if (content !== 'none') await writeFile(file, bytesOf(content))
      }
    }
    await writeTinyGguf(join(folder.path, 'chat.gguf'))
    await writeFile(join(folder.path, 'bert.gguf'), ggufHead('bert'))
    await writeFile(join(folder.path, 'clip.gguf'), ggufHead('clip'))
    const whole = await readFile(join(folder.path, 'chat.gguf'))
    const other = Buffer.from(whole)
    other.writeUInt32LE(9, 4)
    const broken = { 'head-cut': whole.subarray(0, 3000), 'data-cut': whole.subarray(0, -whole.length / 10) }
    const more = { 'byte-cut': whole.subarray(0, -1), 'version-9': other }
    for (const [name, bytes] of Object.entries({ ...broken, ...more }))
      await writeFile(join(folder.path, `${name}.gguf`), bytes)
    await writeFile(join(folder.path, 'empty.gguf'), 'nothing')
  })
  after(async () => {
    folder[Symbol.dispose]()
    await api?.[Symbol.asyncDispose]()
  })

  const take = (name: string, model: string, importOptions: ImportOptions) =>
    importModel(new AdminClient(api.baseUrl, OPERATIONS_KEY), {
      name,
      path: join(folder.path, model),
      task: 'chat',
      ...importOptions,
      accountId,
    })
  const run = (model: string, args: readonly string[]) =>
    new Promise<{ code: number; out: string; err: string }>((resolve) => {
      const path = join(folder.path, model)
      const command = [
        'models',
        'import',
        '--name',
        'commanded',
        '--path',
        path,
        '--account',
        accountId,
        ...args,
      ]
      const env = {
        ...BARE_ENV,
        HEARTH_DATA_DIR: folder.path,
        HEARTH_BASE_URL: api.baseUrl,
        HEARTH_OPERATIONS_KEY: OPERATIONS_KEY,
      }
      execFile(process.execPath, ['cli/hearth.ts', ...command], { env }, (failed, out, err) =>
        resolve({ code: failed ? Number(failed.code ?? 1) : 0, out, err }),
      )
    })
  const countOf = async (table: 'model_import' | 'endpoint') =>
    (await api.database.db.selectFrom(table).select('id').where('account_id', '=', accountId).execute())
      .length

  for (const [model, importOptions, words] of REFUSED) {
    it(`rejects ${model} with ${wordsOf(importOptions)}, and leaves nothing behind`, async () => {
      await assert.rejects(
        take('refused', model, importOptions),
        (err: CliError) => err.exitCode === WRONG_USE && words.test(err.message),
      )
      assert.deepEqual([await countOf('model_import'), await countOf('endpoint')], [0, 0])
    })
  }

  for (const [index, [model, importOptions, profile]] of TAKEN.entries()) {
    it(`imports ${model} with ${wordsOf(importOptions)}`, async () => {
      // The first import uses the name of all rejected ones, which must still be free.
      const { runtime_profile } = await take(index === 0 ? 'refused' : `taken-${index}`, model, importOptions)

      assert.equal(runtime_profile, profile)
    })
  }

  it('prints an error on one line and exits with its code', async () => {
    const refused = await run('embedder', ['--task', 'embedding'])
    const taken = await run('embedder', ['--task', 'embeddings'])

    assert.deepEqual([refused.code, refused.out, refused.err.trim().split('\n').length], [WRONG_USE, '', 1])
    assert.match(refused.err, UNKNOWN)
    assert.equal(taken.code, 0, taken.err)
    assert.match(taken.out, /serves it with specialist-onnx\./)
  })

  it('lists the task types in its help', async () => {
    const { out } = await run('chat', ['--help'])

    assert.match(out.replaceAll(/\s+/g, ' '), /task type: chat, code, .*stt.*text-to-image.*forecasting/)
  })
})

/** Returns the header of a GGUF that declares only its architecture. */
function ggufHead(architecture: string): Uint8Array {
  const [key, value] = [Buffer.from('general.architecture'), Buffer.from(architecture)]
  const u32 = (number: number) => Buffer.from(Uint32Array.of(number).buffer)
  const u64 = (number: number) => Buffer.from(BigUint64Array.of(BigInt(number)).buffer)
  const STRING = 8
  return Buffer.concat([
    Buffer.from('GGUF'),
    u32(3),
    u64(0),
    u64(1),
    u64(key.length),
    key,
    u32(STRING),
    u64(value.length),
    value,
  ])
}
