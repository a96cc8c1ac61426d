import formats from 'ajv-formats'
import { Ajv2020, type Options, type ValidateFunction } from 'ajv/dist/2020.js'
import { RE2JS } from 're2js'
import { canonicalJson } from '../../domain/canonical-json.ts'

const MAX_BYTES = 128 * 1024
const MAX_DEPTH = 64
/** The maximum number of properties: ajv nests its code once per property, and overflows the stack with 2,000. */
const WIDEST = 500
/** Formats that are cheap to check for any text. */
const FORMATS = [
  'date',
  'time',
  'date-time',
  'duration',
  'uri',
  'email',
  'hostname',
  'ipv4',
  'ipv6',
  'uuid',
] as const

/** Why a schema cannot be used, as a message for its author. */
export class UserSchemaError extends Error {
  override readonly name = 'UserSchemaError'
}

/**
 * Runs patterns in linear time. JavaScript's own engine can take exponential time, so one account's pattern could block
 * all requests. The price is that look-around and back-references are not supported.
 */
const linearRegExp = Object.assign(
  (pattern: string) => {
    const compiled = RE2JS.compile(RE2JS.translateRegExp(pattern))
    // ajv identifies patterns by their text.
    return { test: (text: string) => compiled.matcher(text).find(), toString: () => pattern }
  },
  { code: 'linearRegExp' },
)

const OPTIONS: Options = {
  strict: false,
  addUsedSchema: false,
  logger: false,
  // Inlining would repeat a schema for each reference.
  inlineRefs: false,
  code: { regExp: linearRegExp },
}

/**
 * Prepares a JSON Schema that a caller wrote: keywords about members are removed from objects with more than 500
 * properties, which the model itself checks. Throws a `UserSchemaError` for a schema that is too large or too deep.
 */
export function prepareUserSchema(given: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const schema = withoutWideObjects(withoutLeftOut(given))
  if (JSON.stringify(schema).length > MAX_BYTES) {
    throw new UserSchemaError(`is larger than ${MAX_BYTES / 1024} KiB`)
  }
  return schema
}

/**
 * Compiles the result of `prepareUserSchema`. Unknown keywords are ignored and no defaults are filled in. The schema's
 * author controls how long compiling and checking take, so `SchemaChecks` does both in child processes.
 */
export function compileUserSchema(
  prepared: Readonly<Record<string, unknown>>,
  faults: 'first' | 'all' = 'first',
): ValidateFunction {
  const { compiler } = compilers[faults]
  if (++compilers[faults].compiled === COMPILED_WITH_ONE) compilers[faults] = openCompiler(faults)
  try {
    return compiler.compile(prepared)
  } catch (err) {
    if (err instanceof RangeError) throw err
    throw new UserSchemaError(err instanceof Error ? err.message : String(err), { cause: err })
  } finally {
    compiler.removeSchema(prepared)
  }
}

/**
 * How many schemas one ajv instance compiles. A new instance takes about 10 ms to compile the meta-schema, but an
 * instance retains data of every schema.
 */
const COMPILED_WITH_ONE = 64
const compilers = { first: openCompiler('first'), all: openCompiler('all') }

function openCompiler(faults: 'first' | 'all'): { compiler: Ajv2020; compiled: number } {
  const ajv = new Ajv2020({ ...OPTIONS, allErrors: faults === 'all' })
  formats.default(ajv, { mode: 'fast', formats: [...FORMATS] })
  // ajv's own implementation compares every pair of items.
  ajv.removeKeyword('uniqueItems')
  ajv.addKeyword({
    keyword: 'uniqueItems',
    type: 'array',
    validate: (wanted: unknown, items: unknown[]) =>
      wanted !== true || new Set(items.map(canonicalJson)).size === items.length,
  })
  return { compiler: ajv, compiled: 0 }
}

/**
 * Keywords that would make ajv load other schemas or validate asynchronously, and `x-order`, which is only for display.
 */
const LEFT_OUT = new Set(['$schema', '$id', '$async', 'x-order'])

function withoutLeftOut(value: unknown, depth = 0): Record<string, unknown> {
  if (depth > MAX_DEPTH) throw new UserSchemaError(`is nested deeper than ${MAX_DEPTH} levels`)
  if (Array.isArray(value)) return value.map((item) => visit(item, depth)) as never
  const entries = Object.entries(value as object).filter(([name]) => !LEFT_OUT.has(name))
  return Object.fromEntries(entries.map(([name, member]) => [name, visit(member, depth)]))
}

const visit = (value: unknown, depth: number): unknown =>
  typeof value === 'object' && value !== null ? withoutLeftOut(value, depth + 1) : value

/** Keywords about the members of an object. */
const ABOUT_MEMBERS = new Set([
  'properties',
  'patternProperties',
  'additionalProperties',
  'unevaluatedProperties',
  'required',
])

/** Removes keywords about the members of very wide objects: the model itself checks the rows of such a table. */
function withoutWideObjects(schema: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const leftOut = isWide(schema) ? ABOUT_MEMBERS : undefined
  const kept = Object.entries(schema).filter(([name]) => !leftOut?.has(name))
  return Object.fromEntries(kept.map(([name, value]) => [name, withoutWide(value)]))
}

function withoutWide(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutWide)
  if (typeof value !== 'object' || value === null) return value
  return withoutWideObjects(value as Record<string, unknown>)
}

function isWide(schema: object): boolean {
  const { properties } = schema as { properties?: unknown }
  return typeof properties === 'object' && properties !== null && Object.keys(properties).length > WIDEST
}
