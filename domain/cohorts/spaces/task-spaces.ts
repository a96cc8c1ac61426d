import type { ModelSpace } from '../../../schemas/cohorts/evaluator.ts'
import { INPUT_TYPES } from '../../../schemas/inference-task.ts'
import { describedTaskType, makesFiles } from '../../task-types/index.ts'

/** Input fields that hold a file, with the top-level media type they accept. */
const FILE_FIELDS: Readonly<Record<string, 'image' | 'audio'>> = { image_url: 'image', audio_url: 'audio' }
const TEXT_FIELDS = ['text', 'prompt', 'query']

/**
 * Returns the spaces that follow from a task type alone: text and files for its requests, and text, JSON or files for
 * its responses. Empty for a task type without a description.
 */
export function spacesOfTask(taskType: string): ModelSpace[] {
  const described = describedTaskType(taskType)
  if (!described) return []
  const { input_schema, output_schema, example_output, files } = described
  const fields = Object.keys(input_schema['properties'] as object)
  const accepts: ModelSpace[] = files.map((field) => ({
    name: FILE_FIELDS[field] ?? 'file',
    role: 'accepts',
    kind: 'media',
    content_types: INPUT_TYPES.filter((type) => type.startsWith(`${FILE_FIELDS[field]}/`)),
  }))
  if (fields.some((field) => TEXT_FIELDS.includes(field)))
    accepts.push({ name: 'input', role: 'accepts', kind: 'text' })
  return [
    ...accepts,
    { name: 'output', role: 'produces', ...answerOf(taskType, output_schema, example_output) },
  ]
}

function answerOf(
  taskType: string,
  outputSchema: Record<string, unknown>,
  example: Record<string, unknown>,
): Pick<ModelSpace, 'kind' | 'content_types'> {
  if (makesFiles(taskType)) {
    const made = example['output_artifacts'] as { content_type: string }[]
    return { kind: 'media', content_types: made.map(({ content_type }) => content_type) }
  }
  const required = outputSchema['required'] as string[] | undefined
  return { kind: required?.includes('text') ? 'text' : 'json' }
}
