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
import { type ModelFolder, READS_GGUF, unreadableFolder } from './readable.ts'

/** The default runtime profile for each task type. An import's files may require another one. */
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

/** The task types of imports that need no custom profile from an operator. */
export const IMPORT_TASK_TYPES: readonly string[] = [...USUAL_PROFILES.keys()]

/** The file that a profile's server reads first; unknown for other profiles. */
const READ_FIRST: readonly { profile: RegExp; file: RegExp; words: string }[] = [
  { profile: READS_GGUF, file: /\.gguf$/, words: 'a .gguf file' },
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

/** Language models that also accept images, which only vLLM serves. */
const MULTIMODAL = /ForConditionalGeneration$/
const OWN_ONNX = 'onnx/model.onnx'

/** The files of a model, with the content of those that decide whether it can serve; undefined if absent. */
export interface ImportFiles extends ModelFolder {
  /** The content of model_index.json. */
  index: unknown
  /** The content of modules.json. */
  modules: unknown
  /** The first GGUF file; without a header it isn't a GGUF. */
  gguf: { path: string; head: GgufHead | undefined } | undefined
}

/** Returns the runtime profile that best fits the files of an import; undefined for an unknown task type. */
export function profileForImport(task: string, paths: readonly string[]): string | undefined {
  const has = (pattern: RegExp) => paths.some((path) => pattern.test(path))
  if (has(/\.gguf$/)) {
    if (isChatCapable(task)) return 'llm-llamacpp'
    if (isTextTask(task) && !has(/\.(?:safetensors|onnx)$/)) return 'specialist-llamacpp'
  }
  return USUAL_PROFILES.get(task)
}

/**
 * Returns why the files of an import cannot serve a task with a profile. Returns undefined when they can, or when no
 * known fact rules it out, as with an operator's custom profiles.
 */
export function importProblem(task: string, profile: string, files: ImportFiles): string | undefined {
  const reads = READ_FIRST.find((one) => one.profile.test(profile))
  if (!reads) return undefined
  if (files.paths.some((path) => reads.file.test(path)))
    return contentProblem(task, profile, files) ?? unreadableFolder(profile, files)
  return `The runtime profile ${profile} needs ${reads.words}, which is missing; use --runtime-profile to select another profile.`
}

function contentProblem(task: string, profile: string, files: ImportFiles): string | undefined {
  if (profile === 'tabular') return undefined
  if (READS_GGUF.test(profile)) return files.gguf && ggufFileProblem(task, files.gguf)
  if (files.index !== undefined) return pipelineProblem(task, text(files.index, '_class_name') ?? 'none')
  if (profile === 'generative-torch') return soundProblem(task, text(files.config, 'model_type') ?? 'none')
  const architecture = architectureIn(files.config)
  if (architecture === undefined) return undefined
  if (isChatCapable(task)) {
    const seesOnVllm = profile.startsWith('llm-vllm') && MULTIMODAL.test(architecture)
    if (isCausalLm(architecture) || seesOnVllm) return undefined
    return `${architecture} is not a causal language model (ForCausalLM, LMHeadModel), which ${task} needs.`
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
  if (!head) return `${path} is not a GGUF file.`
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
