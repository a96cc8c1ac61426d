import { readdir, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { HubRepo } from '../../servers/hub-server.ts'

/** Reads every file under a folder, keyed by relative path. */
export async function filesOf(folder: string): Promise<Record<string, Buffer>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  return Object.fromEntries(
    await Promise.all(
      files.map(async (path): Promise<[string, Buffer]> => [relative(folder, path), await readFile(path)]),
    ),
  )
}

/** Returns the bytes of a safetensors file with one tensor. */
export function safetensors(elements: number, seed = 0): Buffer {
  const header = Buffer.from(
    JSON.stringify({ w: { dtype: 'BF16', shape: [elements], data_offsets: [0, elements * 2] } }),
  )
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(header.length))
  return Buffer.concat([length, header, Buffer.alloc(elements * 2, seed)])
}

/** Builds a minimal Llama repository with unusable weights. */
export function llamaRepo(repoId: string, overrides: Partial<HubRepo> = {}): HubRepo {
  const config = {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    hidden_size: 64,
    num_hidden_layers: 2,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    max_position_embeddings: 2048,
    torch_dtype: 'bfloat16',
  }
  return {
    repoId,
    files: {
      'README.md': Buffer.from('# a model'),
      'config.json': Buffer.from(JSON.stringify(config)),
      'tokenizer.json': Buffer.from('{}'),
      'model.safetensors': safetensors(50_000),
    },
    licence: 'apache-2.0',
    pipelineTag: 'text-generation',
    library: 'transformers',
    downloads: 100,
    ...overrides,
  }
}

export const json = (value: object) => Buffer.from(JSON.stringify(value))
export const MODULES = ['Transformer', 'Pooling', 'Normalize'].map((name, idx) => ({
  idx,
  path: '',
  type: `sentence_transformers.models.${name}`,
}))

/** Builds a minimal text encoder repository with unusable weights. */
export function encoderRepo(repoId: string, config: object, overrides: Partial<HubRepo> = {}): HubRepo {
  const whole = {
    model_type: 'bert',
    hidden_size: 64,
    num_hidden_layers: 2,
    num_attention_heads: 4,
    ...config,
  }
  return {
    repoId,
    files: {
      'README.md': Buffer.from('# an encoder'),
      'config.json': json(whole),
      'tokenizer.json': json({}),
      'vocab.txt': Buffer.from('a\n'),
      'model.safetensors': safetensors(1_000),
      'pytorch_model.bin': Buffer.alloc(10),
      'modules.json': json(MODULES),
      '1_Pooling/config.json': json({ pooling_mode_mean_tokens: true }),
      'config_sentence_transformers.json': json({}),
      'sentence_bert_config.json': json({}),
      'onnx/model.onnx': Buffer.alloc(9),
      'onnx/model_quantized.onnx': Buffer.alloc(9),
    },
    licence: 'apache-2.0',
    pipelineTag: 'sentence-similarity',
    downloads: 100,
    ...overrides,
  }
}
