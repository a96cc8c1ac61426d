import type { UiSchema } from '@rjsf/utils'
import type { JsonSchema } from '../types.ts'

/** Fields with these names hold text of several lines. */
const LONG = new Set(['code', 'prompt', 'negative_prompt', 'sql', 'text', 'query'])

/** Returns how the fields of a schema are shown. */
export function uiOf(schema: JsonSchema): UiSchema {
  const properties = Object.entries(
    (schema['properties'] ?? {}) as Record<string, { type?: unknown; enum?: unknown }>,
  )
  const long = properties.filter(([name, { type, enum: of }]) => LONG.has(name) && type === 'string' && !of)
  const required = ((schema['required'] ?? []) as string[]).filter((name) =>
    properties.some(([each]) => each === name),
  )
  return {
    'ui:order': [...required, '*'],
    'ui:submitButtonOptions': { norender: true },
    ...Object.fromEntries(
      long.map(([name]) => [name, { 'ui:widget': 'textarea', 'ui:options': { rows: 4 } }]),
    ),
  }
}
