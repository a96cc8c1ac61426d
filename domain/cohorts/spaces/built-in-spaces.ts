import type { ModelSpace } from '../../../schemas/cohorts/evaluator.ts'
import { isChatCapable } from '../../chat/chat.ts'
import type { GgufNumbers } from '../../hub/gguf.ts'
import { llamaCaches, transformersCaches } from './cache-spaces.ts'
import { spacesOfTask } from './task-spaces.ts'

/** Facts about a model that the platform knows without running it. */
export interface ModelFacts {
  taskType: string
  /** The library that its runtime profile uses. */
  framework: string | undefined
  files: readonly { path: string; sha256: string }[]
  /** Its small JSON files, by path. */
  configs: Readonly<Record<string, unknown>>
  /** The header of its GGUF file, or of the first part of a split one. */
  gguf?: { head: GgufNumbers; sha256: string } | undefined
}

type Json = Readonly<Record<string, unknown>>

const TEXT = 'text'
const JSON_TASKS: readonly string[] = ['regression', 'classification', 'forecasting']
const LIGHTGBM = 'lightgbm'
const TRANSFORMERS = 'transformers'
export const LLAMA_CPP = 'llama.cpp'
/** The fields of a pooling config and what they mean. A space can use only one of them. */
const POOLINGS = {
  pooling_mode_mean_tokens: 'mean',
  pooling_mode_cls_token: 'cls',
  pooling_mode_lasttoken: 'last',
} as const

const EMBEDDINGS = 'embeddings'

/** Returns whether a file's content determines the spaces of a model of this task type. */
export const isSpaceConfig = (taskType: string, path: string): boolean =>
  (path === 'config.json' && (taskType === EMBEDDINGS || isChatCapable(taskType))) ||
  (taskType === EMBEDDINGS && (path === 'modules.json' || /^[^/]+\/config\.json$/.test(path)))

/**
 * Returns the spaces that follow from a model's files. We leave out any form that the files do not determine for
 * certain, such as two poolings at once; an evaluator may register it.
 */
export function builtInSpaces(facts: ModelFacts): ModelSpace[] {
  const { taskType, framework } = facts
  if (taskType === EMBEDDINGS) return [space(TEXT, 'accepts', TEXT), ...embedding(facts)]
  if (isChatCapable(taskType)) return [space(TEXT, 'both', TEXT), ...tokens(facts), ...caches(facts)]
  if (framework === LIGHTGBM && JSON_TASKS.includes(taskType)) {
    return [space('input', 'accepts', 'json'), space('output', 'produces', 'json')]
  }
  return spacesOfTask(taskType)
}

const space = (name: string, role: ModelSpace['role'], kind: 'text' | 'json'): ModelSpace => ({
  name,
  role,
  kind,
})

/** The vectors of an encoder, with or without the sentence-transformers layout. */
function embedding({ configs }: ModelFacts): ModelSpace[] {
  const { hidden_size: dimensions } = asJson(configs['config.json'])
  const modules = configs['modules.json']
  const listed = Array.isArray(modules) ? modules.map(asJson) : undefined
  const kinds = listed?.map(({ type }) => String(type).split('.').at(-1))
  const pooling = listed ? poolingOf(listed, configs) : 'mean'
  if (!Number.isInteger(dimensions) || !pooling) return []
  return [
    {
      name: 'output',
      role: 'produces',
      kind: 'embedding',
      dimensions: Number(dimensions),
      dtype: 'f32',
      pooling,
      // Without the sentence-transformers layout, servers normalize the encoder's vectors.
      normalized: kinds?.includes('Normalize') ?? true,
    },
  ]
}

function poolingOf(modules: readonly Json[], configs: ModelFacts['configs']): ModelSpace['pooling'] {
  const module = modules.find(({ type }) => String(type).endsWith('Pooling'))
  const config = asJson(configs[`${String(module?.['path'])}/config.json`])
  const named = config['pooling_mode']
  if (typeof named === 'string')
    return ['mean', 'cls', 'last'].find((one) => one === named) as ModelSpace['pooling']
  const wanted = Object.keys(config).filter(
    (field) => field.startsWith('pooling_mode') && config[field] === true,
  )
  const [only] = wanted
  if (wanted.length === 0) return 'mean'
  return wanted.length === 1 ? POOLINGS[only as keyof typeof POOLINGS] : undefined
}

/** The tokens of a language model that has a separate tokenizer file. */
function tokens({ files }: ModelFacts): ModelSpace[] {
  const tokenizer = tokenizerIn(files)
  if (!tokenizer) return []
  return [{ name: 'tokens', role: 'both', kind: 'tokens', dtype: 'i32', tokenizer_digest: tokenizer.sha256 }]
}

/** The prompt caches (KV caches) of a language model. */
function caches({ framework, files, configs, gguf }: ModelFacts): ModelSpace[] {
  if (framework === LLAMA_CPP) return gguf ? llamaCaches(gguf.head, gguf.sha256) : []
  const tokenizer = tokenizerIn(files)
  if (framework !== TRANSFORMERS || !tokenizer) return []
  return transformersCaches(asJson(configs['config.json']), tokenizer.sha256)
}

const tokenizerIn = (files: ModelFacts['files']) => files.find(({ path }) => path === 'tokenizer.json')

const asJson = (value: unknown): Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {}
