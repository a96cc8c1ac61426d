import type { ToolKind } from '../../schemas/tool.ts'
import { CHAT_TASK_TYPES } from '../chat/chat.ts'
import { taskTypesOfKind } from '../task-types/index.ts'

/** Task types of endpoints by the kind of their action; every other task type is a `model`. */
export const TASK_TYPES_BY_KIND = {
  llm: CHAT_TASK_TYPES,
  specialist: ['specialist', ...taskTypesOfKind('specialist'), 'regression', 'forecasting', 'speech-to-text'],
  generative: taskTypesOfKind('generative'),
  tool: ['tool'],
} as const satisfies Partial<Record<ToolKind, readonly string[]>>

const kinds = new Map<string, ToolKind>(
  Object.entries(TASK_TYPES_BY_KIND).flatMap(([kind, types]) =>
    types.map((type) => [type, kind as ToolKind] as const),
  ),
)

/** The slugs of operations. No endpoint may use one. */
export const OPERATION_SLUGS = ['training.merge', 'training.retrain_on'] as const

/**
 * Returns the kind of an endpoint's action. A model that a run or merge on this platform produced is a `trained_model`.
 */
export const kindOf = ({
  source,
  task_type,
}: {
  source: 'catalog' | 'trained'
  task_type: string
}): ToolKind => (source === 'trained' ? 'trained_model' : (kinds.get(task_type) ?? 'model'))
