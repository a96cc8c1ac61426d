import { CHAT_TASK_TYPES, isChatCapable } from '../chat/chat.ts'
import { isCausalLm } from '../hub/compatibility.ts'
import { encoderGgufProblem, type GgufHead, ggufProblem, isTextTask } from '../hub/gguf.ts'
import { pipelineProblem, soundProblem } from '../hub/pipelines.ts'
import {
  isEncoderTask,
  isKnownArchitecture,
  isSpecialistTask,
  readDecoder,
  readHead,
  readModules,
  specialistProblem,
} from '../hub/specialists.ts'
import { taskTypesOfKind } from '../task-types/index.ts'
import { type ModelFolder, unreadableFolder } from './readable.ts'

/** The runtime profile that an import gets for its task type, unless the files ask for another one. */
const USUAL_PROFILES: ReadonlyMap<string, string> = new Map([
  ...CHAT_TASK_TYPES.map((task) => [task, 'llm-transformers'] as const),
  ['embeddings', 'specialist-onnx'],
  ['rerank', 'specialist-onnx'],
  ['moderation', 'specialist-onnx'],
  ['classification', 'specialist-onnx'],
  ['translation', 'specialist-torch'],
  ['ocr', 'specialist-torch'],
  ['stt', 'specialist-whisper'],
  ...taskTypesOfKind('generative').map((task) => [task, 'generative-torch'] as const),
  ['regression', 'tabular'],
  ['forecasting', 'tabular'],
])

/** The task types of imports without a profile of an operator's own. */
export const IMPORT_TASK_TYPES: readonly string[] = [...USUAL_PROFILES.keys()]

/** The file that the server of a profile reads first; nothing is known of other profiles. */
const READ_FIRST: readonly { profile: RegExp; file: RegExp; words: string }[] = [
  { profile: /^(?:llm|specialist)-llamacpp$/, file: /\.gguf$/, words: '.gguf file' },
  {
    profile: /^llm-(?:transformers|vllm|vllm-process)$/,
    file: /(?:^|\/)config\.json$/,
    words: 'config.json',
  },
  { profile: /^specialist-(?:onnx|torch|whisper)$/, file: /^config\.json$/, words: 'config.json' },
  {
    profile: /^generative-torch$/,
    file: /^(?:model_index|config)\.json$/,
    words: 'model_index.json or config.json',
  },
  { profile: /^tabular$/, file: /^manifest\.json$/, words: 'manifest.json' },
]

/** Language models that also take pictures, which vLLM alone serves. */
const MULTIMODAL = /ForConditionalGeneration$/
const OWN_ONNX = 'onnx/model.onnx'

/** The files of a model, with the content of those that decide whether it can serve; undefined for those it lacks. */
export interface ImportFiles extends ModelFolder {
  /** The model_index.json. */
  index: unknown
  /** The modules.json. */
  modules: unknown
  /** The first GGUF; without a head it is none. */
  gguf: { path: string; head: GgufHead | undefined } | undefined
}

/** Returns the runtime profile that fits the files of an import best; undefined for an unknown task type. */
export function profileForImport(task: string, paths: readonly string[]): string | undefined {
  const has = (pattern: RegExp) => paths.some((path) => pattern.test(path))
  if (has(/\.gguf$/)) {
    if (isChatCapable(task)) return 'llm-llamacpp'
    if (isTextTask(task) && !has(/\.(?:safetensors|onnx)$/)) return 'specialist-llamacpp'
  }
  return USUAL_PROFILES.get(task)
}

/**
 * Returns why the files of an import cannot serve a task with a profile; undefined when they can, or when nothing is
 * known that speaks against it, as with profiles of an operator's own.
 */
export function importProblem(task: string, profile: string, files: ImportFiles): string | undefined {
  const reads = READ_FIRST.find((one) => one.profile.test(profile))
  if (!reads) return undefined
  if (files.paths.some((path) => reads.file.test(path)))
    return contentProblem(task, profile, files) ?? unreadableFolder(profile, files)
  return `There is no ${reads.words} in it, which the runtime profile ${profile} needs; --runtime-profile names another one.`
}

function contentProblem(task: string, profile: string, files: ImportFiles): string | undefined {
  if (profile === 'tabular') return undefined
  if (profile.endsWith('llamacpp')) return files.gguf && ggufFileProblem(task, files.gguf)
  if (files.index !== undefined) return pipelineProblem(task, text(files.index, '_class_name') ?? 'none')
  if (profile === 'generative-torch') return soundProblem(task, text(files.config, 'model_type') ?? 'none')
  const architecture = architectureIn(files.config)
  if (architecture === undefined) return undefined
  if (isChatCapable(task)) {
    const seesOnVllm = profile.startsWith('llm-vllm') && MULTIMODAL.test(architecture)
    if (isCausalLm(architecture) || seesOnVllm) return undefined
    return `${architecture} is no causal language model (ForCausalLM, LMHeadModel), which ${task} needs.`
  }
  if (!isSpecialistTask(task)) return undefined
  const bringsOnnx = profile === 'specialist-onnx' && files.paths.includes(OWN_ONNX)
  const isOwn = bringsOnnx && isEncoderTask(task) && !isKnownArchitecture(architecture)
  if (isOwn && !isCausalLm(architecture)) return undefined
  return specialistProblem(task, {
    architecture,
    head: readHead(files.config),
    decoder: readDecoder(files.config),
    modules: readModules(files.modules),
  })
}

function ggufFileProblem(task: string, { path, head }: NonNullable<ImportFiles['gguf']>): string | undefined {
  if (!head) return `${path} is no GGUF.`
  return isTextTask(task) ? ggufProblem(task, head) : encoderGgufProblem(task, head.architecture)
}

function architectureIn(config: unknown): string | undefined {
  const { architectures } = (config ?? {}) as { architectures?: unknown }
  const first: unknown = Array.isArray(architectures) ? architectures[0] : undefined
  return typeof first === 'string' ? first : undefined
}

function text(file: unknown, key: string): string | undefined {
  const value = ((file ?? {}) as Record<string, unknown>)[key]
  return typeof value === 'string' ? value : undefined
}
