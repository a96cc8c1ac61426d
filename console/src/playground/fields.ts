import type { JsonSchema } from '../types.ts'

/** Fields with these names contain multi-line text. */
const LONG = new Set(['code', 'prompt', 'negative_prompt', 'sql', 'text', 'query'])
const TEXT = { 'ui:widget': 'textarea', 'ui:options': { rows: 4 } }
/** An optional number would otherwise get a text field. */
const NUMBER = { 'ui:options': { inputType: 'number' } }

/** The wildcard for all other fields in the form library's order. */
const REST = '*'

/** The UI schema of fields, by their names and by keywords of the form library. */
export interface Fields {
  readonly [name: string]: unknown
}

/** Returns how the fields of a schema are shown, in their order at every level. */
export function fieldsOf(schema: JsonSchema): Fields {
  const properties = Object.entries(propertiesOf(schema))
  const items = itemsOf(schema)
  return {
    ...(properties.length > 0 && { 'ui:order': [...orderOf(schema), REST] }),
    // A row has its number above it.
    ...(items && {
      items: { ...fieldsOf(items), ...(items['properties'] !== undefined && { 'ui:title': '' }) },
    }),
    ...Object.fromEntries(properties.map(([name, field]) => [name, fieldOf(name, field)])),
  }
}

function fieldOf(name: string, field: JsonSchema): Fields {
  if (isLong(name, field)) return TEXT
  if (isNumberOrNone(field)) return NUMBER
  return { ...fieldsOf(field), ...(name === 'instances' && { 'ui:title': 'Rows' }) }
}

/** Returns an input with the members of its objects in the order of their fields. */
export function inOrder(value: unknown, schema: JsonSchema): unknown {
  if (Array.isArray(value)) return value.map((each) => inOrder(each, itemsOf(schema) ?? {}))
  if (typeof value !== 'object' || value === null) return value
  const properties = propertiesOf(schema)
  const members = value as Record<string, unknown>
  const names = new Set([...orderOf(schema).filter((name) => name in members), ...Object.keys(members)])
  return Object.fromEntries([...names].map((name) => [name, inOrder(members[name], properties[name] ?? {})]))
}

/**
 * Returns the fields that come first. The database doesn't preserve the order of object members. `x-order` has the
 * order of a table's columns. Without it, as in models trained before version 0.13, required fields come first, in the
 * order of `required`.
 */
function orderOf(schema: JsonSchema): string[] {
  const names = propertiesOf(schema)
  const order = [schema['x-order'], schema['required']].find((each) => Array.isArray(each)) ?? []
  return [...new Set(order as string[])].filter((name) => Object.hasOwn(names, name) && name !== REST)
}

export const propertiesOf = ({ properties }: JsonSchema): Record<string, JsonSchema> =>
  (properties ?? {}) as Record<string, JsonSchema>

export const itemsOf = ({ items }: JsonSchema): JsonSchema | undefined =>
  typeof items === 'object' && items !== null ? (items as JsonSchema) : undefined

const isLong = (name: string, { type, enum: of }: JsonSchema): boolean =>
  LONG.has(name) && type === 'string' && !of

const isNumberOrNone = ({ type }: JsonSchema): boolean =>
  Array.isArray(type) && type.includes('null') && (type.includes('number') || type.includes('integer'))
