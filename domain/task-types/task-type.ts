import type { ToolKind } from '../../schemas/tool.ts'

type JsonSchema = Record<string, unknown>

/** A task type: the input and output of its callers, and the fields that its tools and listings show. */
export interface TaskType {
  kind: Extract<ToolKind, 'llm' | 'specialist' | 'generative' | 'tool'>
  /** The `model_category` of its endpoints. */
  category: string
  input_schema: JsonSchema
  output_schema: JsonSchema
  example_input: Record<string, unknown>
  example_output: Record<string, unknown>
  /** The fields of the input that hold the URL of a file. */
  files: readonly string[]
  /** True when answers say in `model` which endpoint gave them. */
  namesModel: boolean
  /** The first request to a new server, where the example would take too long. */
  warmup_input?: Record<string, unknown>
}
