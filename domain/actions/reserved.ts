import { OPERATION_SLUGS } from './kind.ts'

/** The tools that every MCP server of Hearth has. */
export const BUILT_IN_TOOLS = [
  'list_endpoints',
  'get_endpoint',
  'run_inference',
  'list_models',
  'list_trainable_models',
  'get_model_schema',
  'list_datasets',
  'create_dataset',
  'create_training_run',
  'list_training_runs',
  'get_training_run',
  'get_training_metrics',
  'get_training_logs',
  'cancel_training_run',
  'register_for_inference',
  'remember',
  'recall',
]

/** Names that mean something other than an endpoint to agents. Operations are also listed with `_` instead of dots. */
const RESERVED = new Set<string>([
  ...BUILT_IN_TOOLS,
  ...OPERATION_SLUGS,
  ...OPERATION_SLUGS.map((slug) => slug.replaceAll('.', '_')),
])

/** Returns whether a name is reserved, so that no endpoint may use it. */
export const isReserved = (name: string): boolean => RESERVED.has(name)
