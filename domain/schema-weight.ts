type Schema = Readonly<Record<string, unknown>>

/** An upper bound for the cost of validating a value. */
export interface SchemaWeight {
  /** Steps per location of a value, at any depth; `Infinity` when no bound was found. */
  perPlace: number
  /** Subschemas that apply at one location through references and branches alone. */
  atOnce: number
}

/** The search for a bound gives up after visiting this many schemas. */
const MAX_STEPS = 20_000
/** A larger weight is treated as unbounded. */
const MAX_WEIGHT = 1e9

const BRANCHES = ['allOf', 'anyOf', 'oneOf'] as const
const SINGLES = ['not', 'if', 'then', 'else'] as const
const OF_ANY_MEMBER = ['additionalProperties', 'unevaluatedProperties', 'propertyNames'] as const
const OF_ANY_ITEM = ['items', 'contains', 'unevaluatedItems'] as const
const REFERENCES = ['$ref', '$dynamicRef', '$recursiveRef'] as const
const ANCHORS = ['$anchor', '$dynamicAnchor'] as const
/** The target of these references depends on the path on which validation reached them. */
const DYNAMIC = ['$dynamicRef', '$recursiveRef'] as const
/** The cost of keywords that compare whole values and therefore cost more for larger ones. */
const WHOLE_VALUE = 64
const PATTERN = 64

/** How many times each schema applies at one location. */
type Counts = Map<Schema, number>

/**
 * Bounds the cost of validating values against a JSON Schema. References and branches multiply the cost. The algorithm
 * counts how often each schema applies at one location, then at the location of its members, until it finds no new
 * combination. A schema whose counts grow with the depth of the value has no bound.
 */
export function weighSchema(root: Schema, mostSteps = MAX_STEPS): SchemaWeight {
  return new Scale(root, mostSteps).weigh()
}

class Scale {
  readonly #root: Schema
  readonly #mostSteps: number
  readonly #anchors = new Map<string, Schema>()
  readonly #ids = new Map<Schema, number>()
  readonly #own = new Map<Schema, number>()
  readonly #seen = new Set<string>()
  #steps = 0
  #heaviest = 0

  constructor(root: Schema, mostSteps: number) {
    this.#root = root
    this.#mostSteps = mostSteps
    for (const schema of everySchema(root)) {
      for (const name of ANCHORS)
        if (typeof schema[name] === 'string') this.#anchors.set(schema[name], schema)
    }
  }

  weigh(): SchemaWeight {
    const atOnce = this.#mostAtOnce()
    if (atOnce > MAX_WEIGHT) return { perPlace: Infinity, atOnce }
    const waiting: Counts[] = [new Map([[this.#root, 1]])]
    for (let given = waiting.pop(); given; given = waiting.pop()) {
      const key = this.#keyOf(given)
      if (this.#seen.has(key)) continue
      this.#seen.add(key)
      const closed = this.#close(given)
      if (!closed) return { perPlace: Infinity, atOnce }
      let weight = 0
      for (const [schema, count] of closed) weight += count * this.#weightOf(schema)
      this.#heaviest = Math.max(this.#heaviest, weight)
      for (const members of this.#membersOf(closed)) if (members.size > 0) waiting.push(members)
      if (weight > MAX_WEIGHT || this.#steps > this.#mostSteps) return { perPlace: Infinity, atOnce }
    }
    return { perPlace: this.#heaviest, atOnce }
  }

  /**
   * The maximum over all schemas, used or not, because ajv compiles them all and the value decides which ones apply.
   */
  #mostAtOnce(): number {
    const known = new Map<Schema, number>()
    const open = new Set<Schema>()
    const of = (schema: Schema): number => {
      const found = known.get(schema)
      if (found !== undefined) return found
      // A schema that references itself at the same location recurses forever.
      if (open.has(schema)) return Infinity
      open.add(schema)
      let sum = 1
      for (const next of this.#branchesOf(schema)) sum += of(next)
      open.delete(schema)
      known.set(schema, sum)
      return sum
    }
    let most = 0
    for (const schema of everySchema(this.#root)) most = Math.max(most, of(schema))
    return most
  }

  /**
   * Adds the schemas that references and branches apply at the same location; undefined when the counts exceed the
   * bound.
   */
  #close(given: Counts): Counts | undefined {
    const order: Schema[] = []
    const visited = new Set<Schema>()
    const visit = (schema: Schema): void => {
      if (visited.has(schema)) return
      visited.add(schema)
      this.#steps++
      for (const next of this.#branchesOf(schema)) visit(next)
      order.push(schema)
    }
    for (const schema of given.keys()) visit(schema)
    const counts: Counts = new Map(given)
    for (const schema of order.toReversed()) {
      const count = counts.get(schema) ?? 0
      if (count > MAX_WEIGHT || DYNAMIC.some((name) => name in schema)) return undefined
      for (const next of this.#branchesOf(schema)) add(counts, next, count)
    }
    return counts
  }

  #branchesOf(schema: Schema): Schema[] {
    const found: unknown[] = []
    for (const name of BRANCHES) if (Array.isArray(schema[name])) found.push(...(schema[name] as unknown[]))
    for (const name of SINGLES) found.push(schema[name])
    for (const name of ['dependentSchemas', 'dependencies']) found.push(...valuesOf(schema[name]))
    for (const name of REFERENCES)
      if (typeof schema[name] === 'string') found.push(this.#resolve(schema[name]))
    return found.filter(isSchema)
  }

  /** Resolves a reference within the document; any other reference doesn't compile. */
  #resolve(ref: string): unknown {
    if (ref !== '#' && !ref.startsWith('#/')) return this.#anchors.get(ref.slice(1))
    let at: unknown = this.#root
    for (const part of ref.slice(1).split('/').slice(1)) {
      if (typeof at !== 'object' || at === null) return undefined
      at = (at as Record<string, unknown>)[decoded(part).replaceAll('~1', '/').replaceAll('~0', '~')]
    }
    return at
  }

  /** Yields, for each kind of member that a value can have at this location, the schemas that apply to it. */
  *#membersOf(closed: Counts): Iterable<Counts> {
    const ofAnyMember: Counts = new Map()
    const ofAnyItem: Counts = new Map()
    const byName = new Map<string, Counts>()
    const byIndex = new Map<number, Counts>()
    for (const [schema, count] of closed) {
      for (const name of OF_ANY_MEMBER) addSchema(ofAnyMember, schema[name], count)
      for (const pattern of valuesOf(schema.patternProperties)) addSchema(ofAnyMember, pattern, count)
      for (const name of OF_ANY_ITEM) addSchema(ofAnyItem, schema[name], count)
      for (const [name, member] of Object.entries(isSchema(schema.properties) ? schema.properties : {})) {
        addSchema(entryOf(byName, name), member, count)
      }
      const prefix = Array.isArray(schema.prefixItems) ? (schema.prefixItems as unknown[]) : []
      for (const [index, item] of prefix.entries()) addSchema(entryOf(byIndex, index), item, count)
    }
    yield ofAnyMember
    yield ofAnyItem
    this.#steps += byName.size * ofAnyMember.size + byIndex.size * ofAnyItem.size
    if (this.#steps > this.#mostSteps) return
    for (const named of byName.values()) yield merged(named, ofAnyMember)
    for (const indexed of byIndex.values()) yield merged(indexed, ofAnyItem)
  }

  /** The cost of a schema's own keywords; lists of names and values cost in proportion to their length. */
  #weightOf(schema: Schema): number {
    const known = this.#own.get(schema)
    if (known !== undefined) return known
    let weight = 0
    for (const [name, value] of Object.entries(schema)) weight += keywordWeight(name, value)
    this.#own.set(schema, weight)
    return weight
  }

  #keyOf(counts: Counts): string {
    const parts: string[] = []
    for (const [schema, count] of counts) {
      let id = this.#ids.get(schema)
      if (id === undefined) this.#ids.set(schema, (id = this.#ids.size))
      parts.push(`${id}:${count}`)
    }
    return parts.toSorted().join()
  }
}

function keywordWeight(name: string, value: unknown): number {
  switch (name) {
    case 'properties':
    case 'dependentSchemas':
    case 'dependencies':
    case 'dependentRequired':
      return 1 + valuesOf(value).length
    case 'required':
      return 1 + (Array.isArray(value) ? value.length : 0)
    case 'enum':
    case 'const':
      return 1 + JSON.stringify(value).length / 4
    case 'pattern':
      return patternWeight(value)
    case 'patternProperties':
      return Object.keys(isSchema(value) ? value : {}).reduce((sum, text) => sum + patternWeight(text), 0)
    case 'uniqueItems':
      return WHOLE_VALUE
    default:
      return 1
  }
}

/**
 * Returns the steps per character of a linear automaton, which is as large as the pattern with its repetitions
 * expanded.
 */
export function patternWeight(pattern: unknown): number {
  if (typeof pattern !== 'string') return 1
  let size = pattern.length
  for (const [, least = '', most = ''] of pattern.matchAll(/\{(\d{1,9})(?:,(\d{0,9}))?\}/g)) {
    size *= Math.max(1, Number(least), Number(most))
  }
  return PATTERN + size
}

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const valuesOf = (value: unknown): unknown[] => (isSchema(value) ? Object.values(value) : [])

function add(counts: Counts, schema: Schema, count: number): void {
  counts.set(schema, (counts.get(schema) ?? 0) + count)
}

function addSchema(counts: Counts, value: unknown, count: number): void {
  if (isSchema(value)) add(counts, value, count)
}

function merged(one: Counts, other: Counts): Counts {
  const sum = new Map(one)
  for (const [schema, count] of other) add(sum, schema, count)
  return sum
}

function entryOf<K>(map: Map<K, Counts>, key: K): Counts {
  const known = map.get(key)
  if (known) return known
  const fresh: Counts = new Map()
  map.set(key, fresh)
  return fresh
}

/** Yields every object within a schema. Some, such as examples, aren't schemas; they are counted but never apply. */
function* everySchema(value: unknown): Iterable<Schema> {
  if (Array.isArray(value)) for (const item of value) yield* everySchema(item)
  if (!isSchema(value)) return
  yield value
  for (const member of Object.values(value)) yield* everySchema(member)
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
