import type { ToolKind } from '../../schemas/tool.ts'

type JsonSchema = Record<string, unknown>

/** A task type: the input and output for callers, and the fields shown in its tools and listings. */
export interface TaskType {
  kind: Extract<ToolKind, 'llm' | 'specialist' | 'generative' | 'tool'>
  /** The `model_category` of its endpoints. */
  category: string
  input_schema: JsonSchema
  output_schema: JsonSchema
  example_input: Record<string, unknown>
  example_output: Record<string, unknown>
  /** The input fields that hold the URL of a file. */
  files: readonly string[]
  /** True when responses name the endpoint that served them in `model`. */
  namesModel: boolean
  /** The warm-up request for a new server, if the example would take too long. */
  warmup_input?: Record<string, unknown>
}
