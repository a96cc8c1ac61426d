type Json = Record<string, unknown>

/** Collects named schemas (`$id`) in `components` and replaces them with references. */
export class Components {
  readonly schemas: Record<string, unknown> = {}

  /** Returns the schema as it appears in the OpenAPI document. */
  place(schema: unknown): unknown {
    if (Array.isArray(schema)) return schema.map((item) => this.place(item))
    if (typeof schema !== 'object' || schema === null) return schema
    const { $id, ...rest } = openRecord(schema as Json)
    const entries = Object.entries(rest).map(([name, value]) => [
      name,
      keepsNames(name) ? value : this.place(value),
    ])
    const placed = Object.fromEntries(entries) as Json
    if (typeof $id !== 'string') return placed

    const known = this.schemas[$id]
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(placed)) {
      throw new Error(`two different schemas are called ${$id}`)
    }
    this.schemas[$id] = placed
    return { $ref: `#/components/schemas/${$id}` }
  }
}

const ANY_NAME = '^.*$'

/** Writes members with arbitrary names as `additionalProperties`, which client generators understand. */
function openRecord(schema: Json): Json {
  const { patternProperties, ...rest } = schema
  const members = patternProperties as Json | undefined
  if (members?.[ANY_NAME] === undefined) return schema
  return { ...rest, additionalProperties: members[ANY_NAME] }
}

/** Returns whether the values under this name are data rather than schemas. */
const keepsNames = (name: string): boolean =>
  ['default', 'example', 'examples', 'enum', 'const', 'required'].includes(name)
