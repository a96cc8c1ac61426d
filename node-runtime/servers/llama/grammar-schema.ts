import { UnusableError } from './unusable-error.ts'

type Schema = Record<string, unknown>

/** The subset of JSON Schema that a llama.cpp grammar can enforce. Every named property is required. */
export type GrammarSchema = Schema

export interface GrammarSchemaOptions {
  /** The location of the schema in the request. */
  field: string
  /** True to reject a schema whose structure a grammar cannot enforce; otherwise that part accepts any value. */
  isStrict: boolean
}

/** Keywords that constrain the structure of values but can't be enforced by a grammar. */
const STRUCTURAL =
  'contains patternProperties propertyNames dependentRequired dependentSchemas dependencies not if'.split(' ')
/**
 * Keywords that constrain a single value. The grammar ignores them even with `strict`, because clients send them by
 * default (`Field(ge=0)` in pydantic) and validate the value themselves when they parse it.
 */
const BOUNDS =
  'pattern minimum maximum exclusiveMinimum exclusiveMaximum multipleOf uniqueItems format'.split(' ')
const FORMATS = new Set(['date-time', 'time', 'date'])
const SIMPLE = new Set(['string', 'number', 'integer', 'boolean', 'null'])
const MAX_LISTED_INTEGERS = 256
/**
 * The maximum number of visited parts. `allOf` repeats the parts that it joins, so a small schema can describe a huge
 * one.
 */
const MAX_PARTS = 10_000
/** llama.cpp's own limit is 512. */
const MAX_DEPTH = 200
/**
 * The maximum number of alternatives at the start of one value. llama.cpp expands all of them, so definitions that each
 * refer to the next one twice would take time exponential in their number.
 */
const MAX_STARTS = 2_000
/** Longer definition names are replaced. */
const MAX_NAME_LENGTH = 100
const ANY: Schema = {
  oneOf: [{ type: [...SIMPLE] }, { type: 'array' }, { type: 'object', additionalProperties: true }],
}
/** Keywords whose values may differ between parts of an `allOf`, because they constrain nothing. */
const NOTES = new Set('title description default examples deprecated readOnly writeOnly $comment'.split(' '))

/**
 * Translates a JSON Schema for the grammar. Throws an `UnusableError` with the location of a part that isn't a JSON
 * Schema or, if `isStrict`, can't be enforced.
 */
export function grammarSchema(schema: unknown, options: GrammarSchemaOptions): GrammarSchema {
  return new Translation(schema, options).root()
}

class Translation {
  readonly #schema: unknown
  readonly #options: GrammarSchemaOptions
  /** The name in `$defs` of each referenced schema, by reference. */
  readonly #names = new Map<string, string>()
  readonly #definitions: Schema = {}
  /** The result of `#starts` by schema; NaN while it is being computed. */
  readonly #startsBySchema = new Map<Schema, number>()
  #parts = 0
  #depth = 0

  constructor(schema: unknown, options: GrammarSchemaOptions) {
    this.#schema = schema
    this.#options = options
  }

  root(): GrammarSchema {
    const root = this.#walk(this.#schema, this.#options.field)
    return this.#names.size > 0 ? { ...root, $defs: this.#definitions } : root
  }

  #walk(schema: unknown, at: string): Schema {
    return this.#nested(() => this.#translate(schema, at))
  }

  /** Visits one schema; throws if there are too many of them or they are nested too deeply. */
  #nested<T>(visit: () => T): T {
    this.#parts += 1
    if (this.#parts > MAX_PARTS || this.#depth > MAX_DEPTH) throw this.#tooLarge()
    this.#depth += 1
    const result = visit()
    this.#depth -= 1
    return result
  }

  #tooLarge(): UnusableError {
    const { field } = this.#options
    return new UnusableError(
      `${field} is too large or too deeply nested for a llama.cpp grammar: use fewer alternatives and references`,
      field,
    )
  }

  #translate(schema: unknown, at: string): Schema {
    if (schema === true) return ANY
    if (schema === false) return this.#beyond(at, ': false accepts no value, so it')
    if (!isSchema(schema)) throw new UnusableError(`${at} must be a JSON schema`, at)
    if (schema['$ref'] !== undefined) return this.#reference(schema['$ref'], at)
    if (Array.isArray(schema['allOf'])) return this.#all(schema, at)
    const choices = schema['oneOf'] ?? schema['anyOf']
    if (choices !== undefined) {
      this.#isEndless(schema)
      return this.#choice(choices, at)
    }
    if (schema['const'] !== undefined) return literal(schema['const'])
    if (schema['enum'] !== undefined) return this.#enumeration(schema, at)
    return this.#typed(schema, at)
  }

  #typed(schema: Schema, at: string): Schema {
    const { type = impliedType(schema) } = schema
    if (Array.isArray(type)) {
      return { oneOf: type.map((one) => this.#walk({ ...schema, type: one as unknown }, at)) }
    }
    const range = type === 'integer' ? integersOf(schema) : undefined
    if (range) return { enum: range }
    for (const keyword of STRUCTURAL) if (schema[keyword] !== undefined) this.#beyond(`${at}.${keyword}`)
    if (type === undefined) return ANY
    if (type === 'object') return this.#object(schema, at)
    if (type === 'array') return this.#array(schema, at)
    if (type === 'string') return stringOf(schema)
    if (typeof type === 'string' && SIMPLE.has(type)) return { type }
    return this.#beyond(`${at}.type`, `: ${JSON.stringify(type)} is not a JSON type, so it`)
  }

  #object(schema: Schema, at: string): Schema {
    const { properties = {}, required = [], additionalProperties } = schema
    if (!isSchema(properties))
      throw new UnusableError(`${at}.properties must be an object`, `${at}.properties`)
    const needed = Array.isArray(required) ? required.map(String) : []
    const names = Object.keys(properties).filter(
      (name) => properties[name] !== false || needed.includes(name),
    )
    const missing = needed.find((name) => !names.includes(name))
    if (missing !== undefined) this.#beyond(`${at}.required`, `: ${missing} has no schema, so it`)
    if (Number(schema['maxProperties']) < names.length) this.#beyond(`${at}.maxProperties`)
    // Unnamed properties are optional, so the grammar omits them: a model only writes the properties that the schema
    // names.
    const others = additionalProperties ?? schema['properties'] === undefined
    return {
      type: 'object',
      properties: Object.fromEntries(
        names.map((name) => [name, this.#walk(properties[name], `${at}.properties.${name}`)]),
      ),
      additionalProperties:
        typeof others === 'boolean' ? others : this.#walk(others, `${at}.additionalProperties`),
      ...numbersOf(schema, ['minProperties', 'maxProperties']),
    }
  }

  /** Translates arrays. Tuples have two forms: `items` as a list up to draft 7, `prefixItems` since 2020-12. */
  #array(schema: Schema, at: string): Schema {
    const isOldTuple = Array.isArray(schema['items'])
    const [first, firstAt] = isOldTuple ? [schema['items'], 'items'] : [schema['prefixItems'], 'prefixItems']
    const [rest, restAt] = isOldTuple
      ? [schema['additionalItems'], 'additionalItems']
      : [schema['items'], 'items']
    if (first !== undefined && !Array.isArray(first)) {
      throw new UnusableError(`${at}.prefixItems must be a list`, `${at}.prefixItems`)
    }
    const limits = numbersOf(schema, ['minItems', 'maxItems'])
    const prefix = ((first as unknown[] | undefined) ?? []).slice(0, Number(limits['maxItems'] ?? Infinity))
    return {
      type: 'array',
      ...(rest !== undefined && rest !== false && { items: this.#walk(rest, `${at}.${restAt}`) }),
      ...(prefix.length > 0 && {
        prefixItems: prefix.map((item, index) => this.#walk(item, `${at}.${firstAt}.${index}`)),
      }),
      ...limits,
      ...(rest === false && { maxItems: prefix.length }),
    }
  }

  #choice(choices: unknown, at: string): Schema {
    if (!Array.isArray(choices) || choices.length === 0) {
      throw new UnusableError(`${at}.anyOf must be a list of JSON schemas`, `${at}.anyOf`)
    }
    const open = choices.map((choice, index) => ({ choice: choice as unknown, at: `${at}.anyOf.${index}` }))
    const possible = open.filter(({ choice }) => choice !== false)
    return { oneOf: (possible.length > 0 ? possible : open).map((one) => this.#walk(one.choice, one.at)) }
  }

  #enumeration(schema: Schema, at: string): Schema {
    const { enum: values, ...others } = schema
    if (!Array.isArray(values)) throw new UnusableError(`${at}.enum must be a list of values`, `${at}.enum`)
    if (values.length === 0) {
      this.#beyond(`${at}.enum`, ': an empty list accepts no value, so it')
      return this.#typed(others, at)
    }
    if (values.every((value) => value === null || typeof value !== 'object')) return { enum: values }
    return { oneOf: values.map(literal) }
  }

  /** Joins the parts of `allOf` if their keywords don't conflict; otherwise they can't be enforced together. */
  #all(schema: Schema, at: string): Schema {
    const { allOf, ...own } = schema
    const given = allOf as unknown[]
    const [only] = given
    const isNoted = Object.keys(own).every((keyword) => NOTES.has(keyword))
    if (given.length === 1 && isNoted) return this.#walk(only, at)
    if (given.some((part) => this.#isEndless(part))) return this.#beyond(`${at}.allOf`)
    const parts = given.map((part) => this.#target(part))
    const joined = parts.every(isSchema) && parts.reduce<Schema | undefined>(joinSchemas, own)
    if (joined) return this.#walk(joined, at)
    this.#beyond(`${at}.allOf`)
    return this.#walk(own, at)
  }

  /** Resolves a reference, following any further references; throws for a reference cycle. */
  #target(schema: unknown): unknown {
    const ref = isSchema(schema) ? schema['$ref'] : undefined
    if (ref === undefined) return schema
    return this.#nested(() => this.#target(schemaAt(this.#schema, ref)))
  }

  #reference(ref: unknown, at: string): Schema {
    const target = schemaAt(this.#schema, ref)
    if (typeof ref !== 'string' || target === undefined || this.#isEndless(target)) {
      return this.#beyond(
        `${at}.$ref`,
        `: ${JSON.stringify(ref)} does not refer to a schema of this request, so it`,
      )
    }
    const known = this.#names.get(ref)
    if (known !== undefined) return { $ref: `#/$defs/${known}` }
    const name = this.#freeName(ref)
    this.#definitions[name] = ANY
    this.#names.set(ref, name)
    this.#definitions[name] = this.#walk(target, at)
    return { $ref: `#/$defs/${name}` }
  }

  /** Returns the last segment of a reference, or a numbered name if the segment is invalid or taken. */
  #freeName(ref: string): string {
    const last = ref.slice(ref.lastIndexOf('/') + 1)
    const isName = last.length <= MAX_NAME_LENGTH && /^(?!__)[A-Za-z_]\w*$/.test(last)
    if (isName && !Object.hasOwn(this.#definitions, last)) return last
    let number = this.#names.size
    while (Object.hasOwn(this.#definitions, `d${number}`)) number += 1
    return `d${number}`
  }

  /**
   * Returns whether a schema leads to itself before it accepts a character, which no grammar can express. Throws if it
   * has too many alternatives there.
   */
  #isEndless(schema: unknown): boolean {
    const starts = this.#starts(schema)
    if (starts === Infinity) return true
    if (starts > MAX_STARTS) throw this.#tooLarge()
    return false
  }

  /** Counts the alternatives before the first character of a value; `Infinity` if the schema leads to itself there. */
  #starts(schema: unknown): number {
    if (!isSchema(schema)) return 1
    const known = this.#startsBySchema.get(schema)
    if (known !== undefined) return Number.isNaN(known) ? Infinity : known
    const next = [schema['anyOf'], schema['oneOf'], schema['allOf']].flatMap((list) =>
      Array.isArray(list) ? (list as unknown[]) : [],
    )
    if (schema['$ref'] !== undefined) next.push(schemaAt(this.#schema, schema['$ref']))
    this.#startsBySchema.set(schema, Number.NaN)
    const starts =
      next.length === 0
        ? 1
        : this.#nested(() => next.reduce<number>((sum, one) => sum + this.#starts(one), 0))
    this.#startsBySchema.set(schema, starts)
    return starts
  }

  /** Rejects an unenforceable part of a strict schema; otherwise returns a schema that accepts any value. */
  #beyond(at: string, detail = ''): Schema {
    if (!this.#options.isStrict) return ANY
    throw new UnusableError(
      `${at}${detail} cannot be enforced by this model server: remove it, leave out strict, or serve the model ` +
        'with PyTorch',
      at,
    )
  }
}

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function impliedType(schema: Schema): string | undefined {
  if (schema['properties'] !== undefined || schema['additionalProperties'] !== undefined) return 'object'
  if (schema['items'] !== undefined || schema['prefixItems'] !== undefined) return 'array'
  return undefined
}

function stringOf(schema: Schema): Schema {
  const { format } = schema
  if (typeof format === 'string' && FORMATS.has(format)) return { type: 'string', format }
  return { type: 'string', ...numbersOf(schema, ['minLength', 'maxLength']) }
}

/** Returns the integers in a short range. */
function integersOf({ minimum, maximum, ...others }: Schema): number[] | undefined {
  if (typeof minimum !== 'number' || typeof maximum !== 'number') return undefined
  const first = Math.ceil(minimum)
  const count = Math.floor(maximum) - first + 1
  const isNarrower = [...STRUCTURAL, ...BOUNDS].some((keyword) => keyword in others)
  if (count < 1 || count > MAX_LISTED_INTEGERS || isNarrower) return undefined
  return Array.from({ length: count }, (_, index) => first + index)
}

/** Returns a schema that accepts a single value, because a grammar's constants can't be objects or lists. */
function literal(value: unknown): Schema {
  if (Array.isArray(value)) {
    const { length } = value
    return { type: 'array', ...(length > 0 && { prefixItems: value.map(literal) }), maxItems: length }
  }
  if (!isSchema(value)) return { const: value }
  const properties = Object.fromEntries(Object.entries(value).map(([name, one]) => [name, literal(one)]))
  return { type: 'object', properties, additionalProperties: false }
}

/** Joins two schemas that both have to hold; undefined if they have different values for the same keyword. */
function joinSchemas(one: Schema | undefined, other: unknown): Schema | undefined {
  if (!one || !isSchema(other)) return undefined
  const joined: Schema = { ...one }
  for (const [keyword, value] of Object.entries(other)) {
    const before = joined[keyword]
    if (before === undefined || NOTES.has(keyword)) joined[keyword] = before ?? value
    else if (keyword === 'properties' && isSchema(before) && isSchema(value)) {
      const both = Object.keys(value).filter((name) => name in before)
      joined[keyword] = {
        ...before,
        ...value,
        ...Object.fromEntries(both.map((name) => [name, { allOf: [before[name], value[name]] }])),
      }
    } else if (keyword === 'required' || keyword === 'allOf') {
      joined[keyword] = [...new Set([...(before as unknown[]), ...(value as unknown[])])]
    } else if (keyword === '$defs' || keyword === 'definitions') continue
    else if (JSON.stringify(before) !== JSON.stringify(value)) return undefined
  }
  return joined
}

const numbersOf = (schema: Schema, names: readonly string[]): Schema =>
  Object.fromEntries(
    names.flatMap((name) => (typeof schema[name] === 'number' ? [[name, schema[name]]] : [])),
  )

/**
 * Resolves a `$ref` within a JSON Schema: `#`, or `#/` and a JSON Pointer (RFC 6901) that may be percent-encoded.
 * Undefined for anything else, such as the address of another document.
 */
function schemaAt(root: unknown, ref: unknown): unknown {
  if (typeof ref !== 'string' || !/^#(?:\/|$)/.test(ref)) return undefined
  const steps = decoded(ref).split('/').slice(1)
  return steps.reduce<unknown>((part, step) => {
    if (typeof part !== 'object' || part === null) return undefined
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~')
    return Object.hasOwn(part, name) ? (part as Record<string, unknown>)[name] : undefined
  }, root)
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
