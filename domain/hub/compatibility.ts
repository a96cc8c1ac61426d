import { CHAT_TASK_TYPES } from '../chat/chat.ts'
import { READS_GGUF, unreadableConfig } from '../models/readable.ts'
import { kvCacheMb, type ModelShape } from '../models/shape.ts'
import { encoderGgufProblem, type GgufHead, ggufProblem, isTextTask } from './gguf.ts'
import {
  type ModelConfigFacts,
  isEncoderTask,
  isSpecialistTask,
  isWriterTask,
  specialistProblem,
} from './specialists.ts'
import {
  chooseEncoderWeights,
  chooseWriterWeights,
  chooseWeights,
  type HubWeights,
  type WeightFormat,
} from './weights.ts'

/**
 * By `task_type` of the hub routes: the hub's pipeline tags, the model category and the matching task types of runtime
 * profiles.
 */
export const HUB_TASKS = {
  embeddings: {
    pipelines: ['sentence-similarity', 'feature-extraction'],
    category: 'nlp',
    served: ['embeddings'],
  },
  rerank: { pipelines: ['text-ranking'], category: 'nlp', served: ['rerank'] },
  translation: { pipelines: ['translation'], category: 'nlp', served: ['translation'] },
  ocr: { pipelines: ['image-to-text'], category: 'computer_vision', served: ['ocr'] },
  stt: { pipelines: ['automatic-speech-recognition'], category: 'audio', served: ['stt'] },
  moderation: { pipelines: ['text-classification'], category: 'nlp', served: ['moderation'] },
  'text-generation': { pipelines: ['text-generation'], category: 'nlp', served: CHAT_TASK_TYPES },
} as const satisfies Record<
  string,
  { pipelines: readonly string[]; category: string; served: readonly string[] }
>
export type HubTask = keyof typeof HUB_TASKS

export const isHubTask = (text: string): text is HubTask => Object.hasOwn(HUB_TASKS, text)

const isIn = (list: readonly string[], one: string | null): boolean => one !== null && list.includes(one)

/** Returns the hub task with this pipeline tag. */
export const taskOfPipeline = (pipeline: string | null): HubTask | undefined =>
  (Object.keys(HUB_TASKS) as HubTask[]).find((task) => isIn(HUB_TASKS[task].pipelines, pipeline))

interface HubFileFacts {
  path: string
  sizeBytes: number
}

export interface HubRepoFacts {
  repoId: string
  gated: boolean
  licence: string | null
  pipelineTag: string | null
  architectures: readonly string[]
  modelType: string | null
  hasRemoteCode: boolean
  params: number | null
  ggufArchitecture: string | null
  files: readonly HubFileFacts[]
}

export interface HubProfile {
  profile_id: string
  task_types: readonly string[]
  memory_mb: number
  memory_per_weights_mb?: number
  vram_mb: number
}

/** Everything the verdict depends on, apart from the repository itself. */
export interface CompatibilityContext extends ModelConfigFacts {
  task: HubTask | undefined
  profiles: readonly HubProfile[]
  /** Memory of the largest node in MB; undefined while no node is connected. */
  largestNodeMb: number | undefined
  /** Whether the account may read a gated repository; `unknown` before the first attempt. */
  access: 'granted' | 'no_token' | 'refused' | 'not_listed' | 'unknown'
  /** The page on which a user accepts the repository's terms. */
  pageUrl: string
  /** The shape declared in config.json; null when the file has not been read. */
  shape: ModelShape | null
  /** The quantization method in config.json; null if the weights aren't quantized. */
  quantization: string | null
  /** The shards in the safetensors index; null when there is no index or it has not been read. */
  shards: readonly string[] | null
  /** The GGUF header; null when there is none or it has not been read. */
  gguf: GgufHead | null
}

export interface CompatibilityCheck {
  check: string
  passed: boolean
  message: string
}

export interface Compatibility {
  status: 'compatible' | 'requires_review' | 'incompatible'
  runtime_profile_id: string | null
  checks: CompatibilityCheck[]
}

export interface HubVerdict {
  compatibility: Compatibility
  requirements: { vram_mb: number | null; params_b: number | null }
  /** The files that a node downloads to serve the repository; empty when no profile can run it. */
  files: readonly string[]
  sizeBytes: number
}

/** If one of these checks fails, a person must review the repository. Any other failure rejects the repository. */
const FOR_REVIEW = new Set(['licence'])

const USUAL_LLM = 'llm-transformers'
/** Profiles that we prefer when several serve a task. */
const USUAL_PROFILES = new Set([
  USUAL_LLM,
  'llm-llamacpp',
  'specialist-onnx',
  'specialist-torch',
  'specialist-whisper',
])

/** Architectures of causal language models, which the LLM servers support without code from the repository. */
const CAUSAL_LM = /(?:ForCausalLM|LMHeadModel)$/

export const isCausalLm = (architecture: string): boolean => CAUSAL_LM.test(architecture)

const OPEN_LICENCES =
  /^(?:apache-2\.0|mit|bsd.*|cc0-1\.0|cc-by-4\.0|cc-by-sa-4\.0|openrail.*|bigscience-.*|creativeml-.*|isc|unlicense|mpl-2\.0|lgpl.*|gpl.*|agpl.*)$/
const MB = 1024 * 1024

/** Checks whether the platform can serve a repository, and which files and how much memory it needs. */
export function checkHubRepo(repo: HubRepoFacts, around: CompatibilityContext): HubVerdict {
  const wanted = around.task ?? taskOfPipeline(repo.pipelineTag)
  const weights = weightsFor(wanted)(repo.files, around.shards)
  const { format, files = [] } = weights ?? {}
  const sizeBytes = repo.files
    .filter(({ path }) => files.includes(path))
    .reduce((sum, file) => sum + file.sizeBytes, 0)
  const profile = chooseProfile(repo, around, format)
  const shape = wanted === 'text-generation' ? around.shape : null
  const neededMb = profile && memoryOf(profile, sizeBytes, shape)
  const checks = [
    checkArchitecture(repo, around, { profile, format }),
    checkWeights(weights),
    checkRemoteCode(repo),
    checkLicence(repo),
    checkAccess(repo, around),
    checkSize(neededMb, around),
  ]
  const failed = checks.filter(({ passed }) => !passed)
  const isOut = failed.some(({ check }) => !FOR_REVIEW.has(check))
  const params = repo.params ?? around.shape?.params ?? null
  return {
    compatibility: {
      status: isOut ? 'incompatible' : failed.length > 0 ? 'requires_review' : 'compatible',
      runtime_profile_id: profile?.profile_id ?? null,
      checks,
    },
    requirements: {
      vram_mb: neededMb ?? null,
      params_b: params === null ? null : Math.round((params / 1e9) * 1e6) / 1e6,
    },
    files,
    sizeBytes,
  }
}

function weightsFor(task: HubTask | undefined): typeof chooseWeights {
  if (task && isWriterTask(task)) return chooseWriterWeights
  return task && isEncoderTask(task) ? chooseEncoderWeights : chooseWeights
}

function chooseProfile(
  repo: HubRepoFacts,
  around: CompatibilityContext,
  format: WeightFormat | undefined,
): HubProfile | undefined {
  const { task, profiles } = around
  const wanted = task ?? taskOfPipeline(repo.pipelineTag)
  if (!wanted || !format || problemOf(repo, around, format) !== undefined) return undefined
  const { served } = HUB_TASKS[wanted]
  const serving = profiles.filter(({ task_types }) => task_types.some((type) => isIn(served, type)))
  const isGguf = ({ profile_id }: HubProfile): boolean => READS_GGUF.test(profile_id)
  const usualOf = (fit: readonly HubProfile[]) =>
    fit.find(({ profile_id }) => USUAL_PROFILES.has(profile_id)) ?? fit[0]
  if (format === 'gguf') return usualOf(serving.filter(isGguf))
  if (wanted === 'text-generation' && !repo.architectures.some(isCausalLm)) return undefined
  return usualOf(
    serving.filter(
      (profile) =>
        !isGguf(profile) && unreadableConfig(profile.profile_id, readOf(repo, around)) === undefined,
    ),
  )
}

/** Returns why a model cannot serve its task; undefined when it can, or when no known fact rules it out. */
function problemOf(
  { architectures, pipelineTag, ggufArchitecture }: HubRepoFacts,
  { task, head, decoder, modules, gguf }: CompatibilityContext,
  format: WeightFormat | undefined,
): string | undefined {
  const wanted = task ?? taskOfPipeline(pipelineTag)
  if (format === 'gguf') {
    if (isTextTask(wanted)) return gguf ? ggufProblem(wanted, gguf) : undefined
    return encoderGgufProblem(wanted ?? 'its task', ggufArchitecture)
  }
  const [architecture] = architectures
  if (!wanted || !isSpecialistTask(wanted) || architecture === undefined) return undefined
  return specialistProblem(wanted, { architecture, head, decoder, modules })
}

const readOf = ({ modelType }: HubRepoFacts, { quantization }: CompatibilityContext) => ({
  modelType,
  quantization,
})

function memoryOf(
  { memory_mb, memory_per_weights_mb = 1.2 }: HubProfile,
  sizeBytes: number,
  shape: ModelShape | null,
): number {
  return Math.ceil(memory_mb + memory_per_weights_mb * (sizeBytes / MB) + (shape ? kvCacheMb(shape) : 0))
}

function checkArchitecture(
  repo: HubRepoFacts,
  around: CompatibilityContext,
  { profile, format }: { profile: HubProfile | undefined; format: WeightFormat | undefined },
): CompatibilityCheck {
  const { task } = around
  const name = repo.architectures[0] ?? repo.ggufArchitecture ?? repo.modelType ?? 'unknown'
  const wanted = task ?? taskOfPipeline(repo.pipelineTag) ?? repo.pipelineTag ?? 'its task'
  return {
    check: 'architecture',
    passed: profile !== undefined,
    message: profile
      ? `${name} runs on the runtime profile ${profile.profile_id}.`
      : (problemOf(repo, around, format) ??
        unreadableConfig(USUAL_LLM, readOf(repo, around)) ??
        `No runtime profile on this platform serves ${name} for ${wanted}.`),
  }
}

function checkWeights(weights: HubWeights | undefined): CompatibilityCheck {
  const say = (passed: boolean, message: string): CompatibilityCheck => ({
    check: 'weights',
    passed,
    message,
  })
  if (!weights) {
    return say(
      false,
      'The repository has neither safetensors nor GGUF weights; other formats can run code and are never loaded.',
    )
  }
  const { format, missing } = weights
  const name = { gguf: 'GGUF', onnx: 'ONNX', safetensors: 'safetensors' }[format]
  const [first] = missing
  if (first === undefined) return say(true, `The weights are ${name}.`)
  const others = missing.length > 1 ? ` and ${missing.length - 1} more` : ''
  return say(false, `The ${name} weights are incomplete: the repository lacks ${first}${others}.`)
}

const checkRemoteCode = ({ hasRemoteCode }: HubRepoFacts): CompatibilityCheck => ({
  check: 'remote_code',
  passed: !hasRemoteCode,
  message: hasRemoteCode
    ? 'The model needs code from its repository (auto_map), which this platform never runs.'
    : 'The model needs no code from its repository.',
})

function checkLicence({ licence }: HubRepoFacts): CompatibilityCheck {
  const passed = licence !== null && OPEN_LICENCES.test(licence.toLowerCase())
  return {
    check: 'licence',
    passed,
    message: passed
      ? `The license is ${licence}.`
      : licence === null
        ? 'The repository does not state a license; read its page before you offer the model to others.'
        : `The license ${licence} may limit who can use the model and for what; read it before you offer the model to others.`,
  }
}

function checkAccess({ gated }: HubRepoFacts, { access, pageUrl }: CompatibilityContext): CompatibilityCheck {
  const say = (passed: boolean, message: string): CompatibilityCheck => ({ check: 'access', passed, message })
  if (!gated) return say(true, 'The repository is open to everyone.')
  switch (access) {
    case 'granted':
      return say(true, 'The repository is gated and the platform has been granted access.')
    case 'no_token':
      return say(
        false,
        `The repository is gated: accept its terms at ${pageUrl}, create a read token there, and have the operator set HEARTH_HUB_TOKEN to it.`,
      )
    case 'refused':
      return say(
        false,
        `The repository is gated and the platform's token has no access: request access at ${pageUrl} with the account of HEARTH_HUB_TOKEN, and try again once it is granted.`,
      )
    case 'not_listed':
      return say(
        false,
        'The repository is gated and not enabled for your account: ask the operator of this platform to enable it.',
      )
    case 'unknown':
      return say(false, `The repository is gated; see ${pageUrl} for whether the platform may read it.`)
  }
}

function checkSize(
  neededMb: number | undefined,
  { largestNodeMb }: CompatibilityContext,
): CompatibilityCheck {
  const say = (passed: boolean, message: string): CompatibilityCheck => ({ check: 'size', passed, message })
  if (neededMb === undefined) return say(true, 'The memory it needs is unknown without a runtime profile.')
  if (largestNodeMb === undefined)
    return say(true, `It needs about ${neededMb} MB; no node is connected to compare with.`)
  return neededMb <= largestNodeMb
    ? say(true, `It needs about ${neededMb} MB; the largest node has ${largestNodeMb} MB.`)
    : say(
        false,
        `It needs about ${neededMb} MB and the largest node has ${largestNodeMb} MB; add a larger node first.`,
      )
}
