import formats from 'ajv-formats'
import { Ajv2020, type Options, type ValidateFunction } from 'ajv/dist/2020.js'
import { RE2JS } from 're2js'
import { canonicalJson } from '../../domain/canonical-json.ts'

const LARGEST_BYTES = 128 * 1024
const DEEPEST = 64
/** What ajv makes of an object's properties is nested as deep as they are many: with 2,000 it overflows the stack (measured). */
const WIDEST = 500
/** Those that are cheap to check whatever the text. */
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

/** Why a schema cannot be used, in words for whoever wrote it. */
export class UserSchemaError extends Error {
  override readonly name = 'UserSchemaError'
}

/**
 * Patterns run in linear time: those of JavaScript can take for ever on the right text, and one account's pattern would
 * hold up everybody's requests. Look-around and back-references are the price.
 */
const linearRegExp = Object.assign(
  (pattern: string) => {
    const compiled = RE2JS.compile(RE2JS.translateRegExp(pattern))
    // ajv tells patterns apart by what they print.
    return { test: (text: string) => compiled.matcher(text).find(), toString: () => pattern }
  },
  { code: 'linearRegExp' },
)

const OPTIONS: Options = {
  strict: false,
  addUsedSchema: false,
  logger: false,
  // What is referred to often would be written out as often.
  inlineRefs: false,
  code: { regExp: linearRegExp },
}

/**
 * A JSON Schema that a caller wrote, as it is checked: the members of objects with more than 500 properties are left to the
 * model. Throws a `UserSchemaError` for what is too large or too deep.
 */
export function prepareUserSchema(given: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const schema = withoutWideObjects(given)
  if (JSON.stringify(schema).length > LARGEST_BYTES) {
    throw new UserSchemaError(`is larger than ${LARGEST_BYTES / 1024} KiB`)
  }
  return withoutIdentity(schema)
}

/**
 * Compiles what `prepareUserSchema` gave. What ajv does not know in it is passed over and nothing is filled in. Compiling and
 * checking can take as long as the schema's author likes: `SchemaChecks` does both where they hold nobody up.
 */
export function compileUserSchema(prepared: Readonly<Record<string, unknown>>): ValidateFunction {
  if (++compiledWith > COMPILED_WITH_ONE) {
    compiler = openCompiler()
    compiledWith = 1
  }
  try {
    return compiler.compile(prepared)
  } catch (err) {
    if (err instanceof RangeError) throw err
    throw new UserSchemaError(err instanceof Error ? err.message : String(err), { cause: err })
  } finally {
    compiler.removeSchema(prepared)
  }
}

/** One compiles several: each compiles the schema of schemas anew (10 ms, measured), and keeps something of all that it did. */
const COMPILED_WITH_ONE = 64
let compiler = openCompiler()
let compiledWith = 0

function openCompiler(): Ajv2020 {
  const ajv = new Ajv2020(OPTIONS)
  formats.default(ajv, { mode: 'fast', formats: [...FORMATS] })
  // Its own compares every pair of items.
  ajv.removeKeyword('uniqueItems')
  ajv.addKeyword({
    keyword: 'uniqueItems',
    type: 'array',
    validate: (wanted: unknown, items: unknown[]) =>
      wanted !== true || new Set(items.map(canonicalJson)).size === items.length,
  })
  return ajv
}

/** Names that would make ajv look elsewhere, or answer later than it is asked. */
const IDENTITY = new Set(['$schema', '$id', '$async'])

function withoutIdentity(value: unknown, depth = 0): Record<string, unknown> {
  if (depth > DEEPEST) throw new UserSchemaError(`is nested deeper than ${DEEPEST} levels`)
  if (Array.isArray(value)) return value.map((item) => visit(item, depth)) as never
  const entries = Object.entries(value as object).filter(([name]) => !IDENTITY.has(name))
  return Object.fromEntries(entries.map(([name, member]) => [name, visit(member, depth)]))
}

const visit = (value: unknown, depth: number): unknown =>
  typeof value === 'object' && value !== null ? withoutIdentity(value, depth + 1) : value

/** What says something of the members of an object. */
const ABOUT_MEMBERS = new Set([
  'properties',
  'patternProperties',
  'additionalProperties',
  'unevaluatedProperties',
  'required',
])

/** Leaves out what a schema says of the members of very wide objects: the model itself checks the rows of such a table. */
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
