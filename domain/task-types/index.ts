import { isChatCapable } from '../chat/chat.ts'
import { CHAT_LISTING } from '../chat/listing.ts'
import { classification } from './classification.ts'
import { embeddings } from './embeddings.ts'
import { GENERATIVE_TASK_TYPES } from './generative.ts'
import { moderation } from './moderation.ts'
import { ocr } from './ocr.ts'
import { rerank } from './rerank.ts'
import { stt } from './stt.ts'
import type { TaskType } from './task-type.ts'
import { translation } from './translation.ts'

/** Every task type with a description, by name. */
const TASK_TYPES: Readonly<Record<string, TaskType>> = {
  embeddings,
  rerank,
  moderation,
  classification,
  translation,
  ocr,
  stt,
  ...GENERATIVE_TASK_TYPES,
}

/** Returns the description of a task type; undefined for types without one, such as chat. */
export const describedTaskType = (name: string): TaskType | undefined =>
  Object.hasOwn(TASK_TYPES, name) ? TASK_TYPES[name] : undefined

/** Returns the described task types of a kind. */
export const taskTypesOfKind = (kind: TaskType['kind']): string[] =>
  Object.entries(TASK_TYPES).flatMap(([name, type]) => (type.kind === kind ? [name] : []))

/** Returns the category of the models that serve a task type. */
export const modelCategoryOf = (taskType: string): string | null =>
  isChatCapable(taskType) ? 'nlp' : (describedTaskType(taskType)?.category ?? null)

/**
 * Returns whether responses of a task type name the endpoint that served them. Nodes don't know endpoints, so gateways
 * add the name.
 */
export const namesModel = (taskType: string): boolean =>
  isChatCapable(taskType) || (describedTaskType(taskType)?.namesModel ?? false)

/** Returns the input fields of a task type that hold the URL of a file. */
export const filesOf = (taskType: string): readonly string[] => describedTaskType(taskType)?.files ?? []

/**
 * Returns whether requests of a task type produce files. Such requests run as tasks from the start, because only the
 * holder of a lease can store files.
 */
export const makesFiles = (taskType: string): boolean => describedTaskType(taskType)?.kind === 'generative'

/** Returns the warm-up request for a new server of a task type; undefined means the version's own example is used. */
export const warmupInputOf = (taskType: string): Record<string, unknown> | undefined =>
  describedTaskType(taskType)?.warmup_input

const OBJECT = { type: 'object' }

/** The listing of a task type without a description: all we know is that input and output are objects. */
const PLAIN_LISTING = {
  input_schema: OBJECT,
  output_schema: OBJECT,
  example_input: { input: 'Hello' },
  example_output: {},
}

type Listing = Pick<TaskType, 'input_schema' | 'output_schema' | 'example_input' | 'example_output'>

/** Returns the listing of an imported model that serves a task type. */
export function importedListing(taskType: string): Listing {
  if (isChatCapable(taskType)) return CHAT_LISTING
  const { input_schema, output_schema, example_input, example_output } =
    describedTaskType(taskType) ?? PLAIN_LISTING
  return { input_schema, output_schema, example_input, example_output }
}
