import type { Endpoint, JsonSchema } from '../types.ts'
import { inOrder, itemsOf, propertiesOf } from './fields.ts'

export type Cell = string | number | boolean | null | undefined
export type Row = Record<string, Cell>

/** The rows that a model accepts: their columns in order, and the maximum number per request. */
export interface RowSchema {
  columns: readonly (readonly [name: string, schema: JsonSchema])[]
  required: readonly string[]
  most: number
}

/** Returns the rows that a model accepts, or undefined if its input isn't tabular. */
export function rowSchemaOf(schema: JsonSchema): RowSchema | undefined {
  const instances = propertiesOf(schema)['instances']
  const row = instances && itemsOf(instances)
  if (!row) return undefined
  const properties = propertiesOf(row)
  const order = Object.keys(inOrder(properties, row) as object)
  const columns = order.map((name) => [name, properties[name] ?? {}] as const)
  if (columns.length === 0 || columns.some(([, column]) => isNested(column))) return undefined
  return {
    columns,
    required: (row['required'] ?? []) as string[],
    most: Number(instances['maxItems'] ?? Infinity),
  }
}

/** Returns the rows of an input. */
export function rowsIn(input: unknown): Row[] {
  const { instances } = Object(input) as { instances?: unknown }
  return Array.isArray(instances) ? (instances as Row[]) : []
}

/** Returns the input that a form begins with: the example, with no more rows than necessary. */
export function startOf({ example_input, input_schema }: Endpoint): unknown {
  const input = inOrder(example_input ?? {}, input_schema)
  const rows = rowsIn(input)
  const least = Number(propertiesOf(input_schema)['instances']?.['minItems'] ?? 1)
  return rows.length > 1 ? { ...Object(input), instances: rows.slice(0, Math.max(1, least)) } : input
}

const isNested = ({ type }: JsonSchema): boolean =>
  [type].flat().some((each) => each === 'array' || each === 'object')
