import type { UiSchema } from '@rjsf/utils'
import type { JsonSchema } from '../types.ts'

/** Fields with these names hold text of several lines. */
const LONG = new Set(['code', 'prompt', 'negative_prompt', 'sql', 'text', 'query'])

/** Returns how the fields of a schema are shown. */
export const uiOf = (schema: JsonSchema): UiSchema => ({
  ...fieldsOf(schema),
  'ui:submitButtonOptions': { norender: true },
})

/**
 * Required fields come first, at every level, in the order in which `required` names them: for a model of a table that of its
 * columns, which `properties` has lost on its way through the database.
 */
function fieldsOf(schema: JsonSchema): UiSchema {
  const properties = Object.entries((schema['properties'] ?? {}) as Record<string, JsonSchema>)
  const names = new Set(properties.map(([name]) => name))
  const required = ((schema['required'] ?? []) as string[]).filter((name) => names.has(name))
  const { items } = schema
  return {
    ...(names.size > 0 && { 'ui:order': [...required, '*'] }),
    ...(typeof items === 'object' && items !== null && { items: fieldsOf(items as JsonSchema) }),
    ...Object.fromEntries(
      properties.map(([name, field]) => [name, isLong(name, field) ? TEXT : fieldsOf(field)]),
    ),
  }
}

const isLong = (name: string, { type, enum: of }: JsonSchema): boolean =>
  LONG.has(name) && type === 'string' && !of

const TEXT: UiSchema = { 'ui:widget': 'textarea', 'ui:options': { rows: 4 } }
