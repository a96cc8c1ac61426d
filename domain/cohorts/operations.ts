import type { StageOperation } from '../../schemas/cohort-plan.ts'

/** The profiles whose servers read a prompt into a file, and go on from such a file (node-runtime/servers/README.md). */
const HANDS_PROMPTS_OVER: readonly string[] = ['llm-transformers', 'llm-llamacpp']

/** Returns what stages of cohorts can have a model do that a runtime profile serves for a task type. */
export function operationsOf(profileId: string, taskType: string): StageOperation[] {
  return [
    'infer',
    ...(taskType === 'embeddings' ? (['embed'] as const) : []),
    ...(HANDS_PROMPTS_OVER.includes(profileId) ? (['prefill', 'decode'] as const) : []),
  ]
}

/** The operations that make what they hand over in parts, which a session hands over one by one. */
export const STREAMED_OPERATIONS: readonly StageOperation[] = ['embed']
