const MAX_DEPTH = 12
/** If more objects than this have a member with the name, a hint would be useless. */
const MAX_PLACES = 3

/**
 * Returns a hint that names the objects of a schema with a member of this name, such as `edges[]`; an empty string if
 * none or too many have one. `at` is the member's actual location, which we exclude: another variant of that object may
 * have the member.
 */
export function belongsTo(schema: unknown, name: string, at: readonly (string | number)[]): string {
  const places = new Set<string>()
  collect(schema, { name, place: '', depth: 0, places })
  places.delete(at.reduce<string>((path, step) => inside(path, step), ''))
  if (places.size === 0 || places.size > MAX_PLACES) return ''
  return `it belongs to ${[...places].map((path) => path || 'the top-level object').join(' or ')}`
}

function inside(path: string, step: string | number): string {
  if (typeof step === 'number') return `${path}[]`
  return path === '' ? step : `${path}.${step}`
}

interface SchemaWalk {
  name: string
  place: string
  depth: number
  places: Set<string>
}

function collect(schema: unknown, walk: SchemaWalk): void {
  if (typeof schema !== 'object' || schema === null || walk.depth > MAX_DEPTH) return
  const { properties, items, anyOf, oneOf, allOf } = schema as Record<string, unknown>
  const into = (inner: unknown, place: string) => collect(inner, { ...walk, place, depth: walk.depth + 1 })
  if (typeof properties === 'object' && properties !== null) {
    if (Object.hasOwn(properties, walk.name)) walk.places.add(walk.place)
    for (const [member, inner] of Object.entries(properties)) into(inner, inside(walk.place, member))
  }
  if (items !== undefined) into(items, `${walk.place}[]`)
  for (const branches of [anyOf, oneOf, allOf])
    if (Array.isArray(branches)) for (const branch of branches) into(branch, walk.place)
}
