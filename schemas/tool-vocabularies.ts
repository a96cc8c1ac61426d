// Separate from the schemas, because the settings need these names and must load without TypeBox.

export const TOOL_KINDS = [
  'llm',
  'specialist',
  'tool',
  'trained_model',
  'generative',
  'model',
  'operation',
] as const
export const TOOL_STABILITIES = ['experimental', 'beta', 'stable'] as const
