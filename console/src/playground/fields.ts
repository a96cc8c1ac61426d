import type { JsonSchema } from '../types.ts'

/** Fields with these names hold text of several lines. */
const LONG = new Set(['code', 'prompt', 'negative_prompt', 'sql', 'text', 'query'])
const TEXT = { 'ui:widget': 'textarea', 'ui:options': { rows: 4 } }

/** How fields are shown, by their names and by keywords of the form library's UI schema. */
export interface Fields {
  readonly [name: string]: unknown
}

/**
 * Returns how the fields of a schema are shown. Required ones come first, at every level, in the order in which `required`
 * names them: for a model of a table that of its columns, which `properties` has lost on its way through the database.
 */
export function fieldsOf(schema: JsonSchema): Fields {
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
