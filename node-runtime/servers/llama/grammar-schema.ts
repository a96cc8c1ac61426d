import { UnusableError } from './unusable-error.ts'

type Schema = Record<string, unknown>

/** The subset of JSON Schema that a grammar of llama.cpp can enforce; every named property is written. */
export type GrammarSchema = Schema

export interface GrammarSchemaOptions {
  /** The location of the schema in the request. */
  field: string
  /** True to refuse keywords that a grammar cannot enforce; otherwise they are ignored. */
  isStrict: boolean
}

/** Keywords that restrict a value and that no grammar here can enforce. */
const BEYOND = (
  'pattern minimum maximum exclusiveMinimum exclusiveMaximum multipleOf uniqueItems ' +
  'contains patternProperties propertyNames dependentRequired dependentSchemas not if'
).split(' ')
const FORMATS = new Set(['date-time', 'time', 'date'])
const SIMPLE = new Set(['string', 'number', 'integer', 'boolean', 'null'])
const MOST_INTEGERS = 256
const ANY: Schema = {
  oneOf: [{ type: [...SIMPLE] }, { type: 'array' }, { type: 'object', additionalProperties: true }],
}

/**
 * Translates a JSON Schema for the grammar. Throws an `UnusableError` with the location of a keyword
 * that cannot be enforced.
 */
export function grammarSchema(schema: unknown, options: GrammarSchemaOptions): GrammarSchema {
  return new Translation(schema, options).root()
}

class Translation {
  readonly #schema: unknown
  readonly #options: GrammarSchemaOptions
  readonly #definitions: Schema

  constructor(schema: unknown, options: GrammarSchemaOptions) {
    this.#schema = schema
    this.#options = options
    const { $defs, definitions } = isSchema(schema) ? schema : {}
    this.#definitions = { ...(isSchema(definitions) && definitions), ...(isSchema($defs) && $defs) }
  }

  root(): GrammarSchema {
    const { field } = this.#options
    const names = Object.keys(this.#definitions)
    const defs = names.map((name) => [name, this.#walk(this.#definitions[name], `${field}.$defs.${name}`)])
    return {
      ...this.#walk(this.#schema, field),
      ...(names.length > 0 && { $defs: Object.fromEntries(defs) as Schema }),
    }
  }

  #walk(schema: unknown, at: string): Schema {
    if (schema === true) return ANY
    if (!isSchema(schema)) throw new UnusableError(`${at} must be a JSON schema`, at)
    if (schema['$ref'] !== undefined) return this.#reference(schema['$ref'], at)
    if (Array.isArray(schema['allOf']) && schema['allOf'].length === 1) {
      const { allOf, ...rest } = schema
      return this.#walk({ ...rest, ...(allOf as Schema[])[0] }, at)
    }
    const choices = schema['oneOf'] ?? schema['anyOf']
    if (choices !== undefined) return this.#choice(choices, at)
    if (schema['allOf'] !== undefined) this.#beyond(`${at}.allOf`)
    if (schema['const'] !== undefined) return { const: this.#plain(schema['const'], `${at}.const`) }
    if (schema['enum'] !== undefined) return this.#enumeration(schema['enum'], `${at}.enum`)
    return this.#typed(schema, at)
  }

  #typed(schema: Schema, at: string): Schema {
    const { type = impliedType(schema) } = schema
    if (Array.isArray(type)) {
      return { oneOf: type.map((one) => this.#walk({ ...schema, type: one as unknown }, at)) }
    }
    const range = type === 'integer' ? integersOf(schema) : undefined
    if (range) return { enum: range }
    for (const keyword of BEYOND) if (schema[keyword] !== undefined) this.#beyond(`${at}.${keyword}`)
    if (type === undefined) return ANY
    if (type === 'object') return this.#object(schema, at)
    if (type === 'array') return this.#array(schema, at)
    if (type === 'string') return this.#string(schema, at)
    if (typeof type === 'string' && SIMPLE.has(type)) return { type }
    throw new UnusableError(`${at}.type is no type of JSON: ${JSON.stringify(type)}`, `${at}.type`)
  }

  #object(schema: Schema, at: string): Schema {
    const { properties = {}, required = [], additionalProperties } = schema
    if (!isSchema(properties))
      throw new UnusableError(`${at}.properties must be an object`, `${at}.properties`)
    const names = Object.keys(properties)
    const missing = (Array.isArray(required) ? required : []).find((name) => !names.includes(String(name)))
    if (missing !== undefined) this.#beyond(`${at}.required`, `: ${String(missing)} has no schema, so it`)
    if (Number(schema['maxProperties']) < names.length) this.#beyond(`${at}.maxProperties`)
    // Unnamed properties are optional, and the grammar omits them: a model writes only what the schema names.
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

  #array(schema: Schema, at: string): Schema {
    const { items, prefixItems } = schema
    if (prefixItems !== undefined && !Array.isArray(prefixItems)) {
      throw new UnusableError(`${at}.prefixItems must be a list`, `${at}.prefixItems`)
    }
    return {
      type: 'array',
      ...(items !== undefined && { items: this.#walk(items, `${at}.items`) }),
      ...(prefixItems && {
        prefixItems: prefixItems.map((item, index) => this.#walk(item, `${at}.prefixItems.${index}`)),
      }),
      ...numbersOf(schema, ['minItems', 'maxItems']),
    }
  }

  #string(schema: Schema, at: string): Schema {
    const { format } = schema
    if (format === undefined) return { type: 'string', ...numbersOf(schema, ['minLength', 'maxLength']) }
    if (typeof format === 'string' && FORMATS.has(format)) return { type: 'string', format }
    this.#beyond(`${at}.format`)
    return { type: 'string' }
  }

  #choice(choices: unknown, at: string): Schema {
    if (!Array.isArray(choices) || choices.length === 0) {
      throw new UnusableError(`${at}.anyOf must be a list of JSON schemas`, `${at}.anyOf`)
    }
    return { oneOf: choices.map((choice, index) => this.#walk(choice, `${at}.anyOf.${index}`)) }
  }

  #enumeration(values: unknown, at: string): Schema {
    if (!Array.isArray(values) || values.length === 0) {
      throw new UnusableError(`${at} must be a list of values`, at)
    }
    return { enum: values.map((value) => this.#plain(value, at)) }
  }

  #plain(value: unknown, at: string): unknown {
    if (value === null || typeof value !== 'object') return value
    throw new UnusableError(`${at} may hold texts, numbers, true, false and null here`, at)
  }

  #reference(ref: unknown, at: string): Schema {
    const name = typeof ref === 'string' ? /^#\/(?:\$defs|definitions)\/(.+)$/.exec(ref)?.[1] : undefined
    if (name !== undefined && name in this.#definitions) return { $ref: `#/$defs/${name}` }
    throw new UnusableError(`${at}.$ref names nothing in $defs: ${JSON.stringify(ref)}`, `${at}.$ref`)
  }

  #beyond(at: string, detail = ''): void {
    if (!this.#options.isStrict) return
    throw new UnusableError(
      `${at}${detail} cannot be held to by this model server: leave it out, or serve the model on PyTorch`,
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

/** Lists a short range of integers. */
function integersOf({ minimum, maximum, ...others }: Schema): number[] | undefined {
  if (typeof minimum !== 'number' || typeof maximum !== 'number') return undefined
  const first = Math.ceil(minimum)
  const count = Math.floor(maximum) - first + 1
  if (count < 1 || count > MOST_INTEGERS || BEYOND.some((keyword) => keyword in others)) return undefined
  return Array.from({ length: count }, (_, index) => first + index)
}

const numbersOf = (schema: Schema, names: readonly string[]): Schema =>
  Object.fromEntries(
    names.flatMap((name) => (typeof schema[name] === 'number' ? [[name, schema[name]]] : [])),
  )
