type Json = Record<string, unknown>

/** Gathers named schemas (`$id`) into `components`, leaving references where they stood. */
export class Components {
  readonly schemas: Record<string, unknown> = {}

  /** The schema as the description shows it. */
  place(schema: unknown): unknown {
    if (Array.isArray(schema)) return schema.map((item) => this.place(item))
    if (typeof schema !== 'object' || schema === null) return schema
    const { $id, ...rest } = schema as Json
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

/** Values that are data, not schemas. */
const keepsNames = (name: string): boolean =>
  ['default', 'example', 'examples', 'enum', 'const', 'required'].includes(name)
