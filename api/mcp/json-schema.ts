import type { TSchema } from 'typebox'
import type { JsonObject } from './tool.ts'

/** Keywords that only the platform's own validation knows, and names that would clash between the schemas of tools. */
const INTERNAL = new Set(['$id', 'discriminator', 'example'])

/** Names under which data stands in a schema, and not another schema. */
const DATA = new Set(['default', 'examples', 'enum', 'const', 'required'])

/** Returns a schema as clients get it: plain JSON Schema 2020-12 that refers to nothing outside of itself. */
export const publicSchema = (schema: TSchema): JsonObject => placed(schema) as JsonObject

function placed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(placed)
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).filter(([name]) => !INTERNAL.has(name))
  return Object.fromEntries(
    members.map(([name, member]) => {
      if (DATA.has(name)) return [name, member]
      return [name, name === 'properties' ? propertiesOf(member as JsonObject) : placed(member)]
    }),
  )
}

/** The names of properties are no keywords. */
const propertiesOf = (properties: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, placed(schema)]))
