import type { TSchema } from 'typebox'
import type { JsonObject } from './tool.ts'

/** Keywords that only our own validation knows, and `$id`s that would clash between tool schemas. */
const INTERNAL = new Set(['$id', 'discriminator', 'example'])

/** Schema keywords whose values are data rather than schemas. */
const DATA = new Set(['default', 'examples', 'enum', 'const', 'required'])

/** Returns a schema for clients: plain, self-contained JSON Schema 2020-12. */
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

/** Property names aren't keywords, so don't filter them. */
const propertiesOf = (properties: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, placed(schema)]))
