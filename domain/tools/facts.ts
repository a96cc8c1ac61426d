import type {
  CostHint,
  MeasuredLatencyClass,
  SideEffect,
  ToolCategory,
  ToolKind,
} from '../../schemas/tool.ts'
import { CHAT_TASK_TYPES, isChatCapable } from '../chat/chat.ts'

const CATEGORY_OF_MODELS: Readonly<Record<string, ToolCategory>> = {
  nlp: 'nlp',
  ml_classical: 'tabular',
  time_series: 'time_series',
  computer_vision: 'vision',
}

const TASK_TYPES_BY_CATEGORY: Partial<Record<ToolCategory, readonly string[]>> = {
  nlp: [...CHAT_TASK_TYPES, 'embeddings', 'rerank', 'moderation', 'translation'],
  vision: [
    'ocr',
    'text-to-image',
    'image-to-image',
    'image-to-3d',
    'text-to-3d',
    'text-to-video',
    'image-to-video',
  ],
  audio: ['speech-to-text', 'text-to-audio', 'text-to-speech'],
  time_series: ['forecasting'],
  tabular: ['regression'],
}

const categories = new Map(
  Object.entries(TASK_TYPES_BY_CATEGORY).flatMap(([category, types]) =>
    types.map((type) => [type, category as ToolCategory] as const),
  ),
)

/** Returns the category of a tool by its task; if the task leaves it open, the category of its model. */
export const categoryOf = (taskType: string, modelCategory: string | null): ToolCategory | undefined =>
  categories.get(taskType) ?? CATEGORY_OF_MODELS[modelCategory ?? '']

/** Returns the hint for a price in US dollars. */
export function costHintOf(usd: number): CostHint {
  if (usd === 0) return 'free'
  if (usd < 0.001) return 'low'
  return usd < 0.01 ? 'medium' : 'high'
}

const UNMEASURED: Partial<Record<ToolKind, MeasuredLatencyClass>> = {
  specialist: 'fast',
  trained_model: 'fast',
  generative: 'batch',
}

/** Returns the latency class that applies until the first request has been measured. */
export const unmeasuredLatencyClass = (kind: ToolKind, taskType: string): MeasuredLatencyClass =>
  isChatCapable(taskType) ? 'slow' : (UNMEASURED[kind] ?? 'slow')

const FETCHED = /_url$/
const MAX_LEVELS = 8

/** Returns the side effects of a request to an endpoint, judging by its declaration. */
export function sideEffectsOf({
  kind,
  usd,
  inputSchema,
}: {
  kind: ToolKind
  usd: number
  inputSchema: Readonly<Record<string, unknown>>
}): SideEffect[] {
  const effects: SideEffect[] = []
  // The node downloads the files that these properties point to.
  if (namesAddress(inputSchema)) effects.push('network')
  // The files of a generative result are stored for a day.
  if (kind === 'generative') effects.push('storage')
  if (usd > 0) effects.push('cost')
  return effects
}

function namesAddress(schema: unknown, level = 0): boolean {
  if (typeof schema !== 'object' || schema === null || level > MAX_LEVELS) return false
  const { properties } = schema as { properties?: unknown }
  if (typeof properties === 'object' && properties !== null) {
    if (Object.keys(properties).some((name) => FETCHED.test(name) || name === 'url')) return true
  }
  return Object.values(schema).some((part) => namesAddress(part, level + 1))
}
