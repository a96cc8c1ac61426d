import formats from 'ajv-formats'
import { Ajv2020, type ErrorObject, type Options, type ValidateFunction } from 'ajv/dist/2020.js'
import type { TSchema } from 'typebox'
import { AbsentNulls } from '../../domain/absent-nulls.ts'
import { ApiError, invalid, invalidFor } from '../../domain/errors.ts'
import { MAX_JSON_DEPTH } from './bodies/json-weight.ts'
import { toIssues, type MessagePart } from './issues.ts'

const COMMON: Options = {
  useDefaults: true,
  discriminator: true,
  // Adds the violated schema to each error; we read a union's members from it.
  verbose: true,
  addUsedSchema: false,
  strictTypes: false,
  strictRequired: false,
  strictTuples: false,
}

/**
 * Returns `value` with defaults filled in and (text only) coerced; throws `validation_failed`. With `large`, only the
 * first error is reported, because listing half a million errors would cost too much.
 */
export type Check = (value: unknown, large?: boolean) => unknown

/** Longer bodies are checked with `large`. */
export const LARGE_BYTES = 64 * 1024

/**
 * Two ajv instances for one kind of input. The first stops at the first error, so hostile input costs no more than
 * valid input. The second lists all errors and runs only on invalid input.
 */
class Compiler {
  readonly #first: Ajv2020
  readonly #all: Ajv2020

  constructor(coerceTypes: 'array' | false) {
    this.#first = new Ajv2020({ ...COMMON, coerceTypes })
    this.#all = new Ajv2020({ ...COMMON, coerceTypes, allErrors: true })
    for (const ajv of [this.#first, this.#all]) {
      formats.default(ajv)
      ajv.addVocabulary(['example'])
    }
  }

  /** Compiles the schema on first use, because a process never calls most routes. */
  check(where: MessagePart, schema: TSchema): Check {
    let first: ValidateFunction | undefined
    let all: ValidateFunction | undefined

    return (value, large = false) => {
      first ??= this.#first.compile(schema)
      if (first(value)) return value
      const every = large ? first : (all ??= this.#all.compile(schema))
      if (isValidWithoutNulls(first, every, { value, schema })) return value
      if (large) throw invalidFor(toIssues(where, first.errors ?? [], schema), where)

      const { errors } = every(value) ? first : every
      throw invalidFor(toIssues(where, errors ?? [], schema), where)
    }
  }
}

/**
 * Validates an invalid value again, without optional fields that are null but must not be.
 * @param all reports all errors if the value is small, so all such fields are removed at once.
 */
function isValidWithoutNulls(
  first: ValidateFunction,
  all: ValidateFunction,
  { value, schema }: { value: unknown; schema: TSchema },
): boolean {
  const nulls = new AbsentNulls<ErrorObject>(value, { schema })
  // The first error may not be about a null; without this, the nulls would be reported along with it.
  const start = all === first || all(value) ? first : all
  for (let { errors } = start; nulls.remove(errors ?? []); { errors } = all) if (all(value)) return true
  first.errors = [...nulls.faults]
  return false
}

const strict = new Compiler(false)
const coercing = new Compiler('array')

/** Validates JSON, without coercion. */
export const jsonCheck = (where: MessagePart, schema: TSchema): Check => strict.check(where, schema)

/**
 * Boolean spellings that FastAPI accepts in a query in addition to JSON's. Python writes `True`, and curl users write
 * `1`.
 */
const BOOLEANS: ReadonlyMap<string, string> = new Map([
  ...['true', '1', 'yes', 'on', 't', 'y'].map((word) => [word, 'true'] as const),
  ...['false', '0', 'no', 'off', 'f', 'n'].map((word) => [word, 'false'] as const),
])

/**
 * Validates input that arrives as text (query, path, headers, form fields) and coerces it to the numbers and booleans
 * that the schema declares. Booleans accept all spellings in `BOOLEANS`, in any case.
 */
export function textCheck(where: MessagePart, schema: TSchema): Check {
  const check = coercing.check(where, schema)
  const properties = (schema as { properties?: Record<string, { type?: unknown }> }).properties ?? {}
  const booleans = Object.keys(properties).filter((name) => properties[name]?.type === 'boolean')
  if (booleans.length === 0) return check
  return (value, large) => {
    if (typeof value === 'object' && value !== null) spellBooleans(value as Record<string, unknown>, booleans)
    return check(value, large)
  }
}

/** Spells the named members as JSON does, in place. */
function spellBooleans(value: Record<string, unknown>, names: readonly string[]): void {
  for (const name of names) {
    const given = value[name]
    if (typeof given === 'string') value[name] = BOOLEANS.get(given.toLowerCase()) ?? given
  }
}

/**
 * Rejects JSON that is nested too deeply (so no recursion overflows the stack), `__proto__` members (which change their
 * meaning when copied), and numbers beyond the range of a double.
 */
export function checkShape(value: unknown): void {
  if (!holdsInfinite(value, 0)) return
  const loc = ['body', ...(placeOfInfinite(value) ?? [])]
  throw invalid(loc, 'is too large for a 64-bit number (1.8e308 at most)', 'number')
}

export const tooDeep = (): ApiError =>
  new ApiError('bad_request', `JSON is nested deeper than ${MAX_JSON_DEPTH} levels`)

function holdsInfinite(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return isInfinite(value)
  if (depth === MAX_JSON_DEPTH) throw tooDeep()

  let found = false
  if (Array.isArray(value)) {
    for (const item of value) found = holdsInfinite(item, depth + 1) || found
    return found
  }
  for (const name in value) {
    if (name === '__proto__') throw new ApiError('bad_request', '"__proto__" is not allowed as a member name')
    found = holdsInfinite((value as Record<string, unknown>)[name], depth + 1) || found
  }
  return found
}

/** Recursion is safe here, because the value's depth has been checked. */
function placeOfInfinite(value: unknown): (string | number)[] | undefined {
  if (isInfinite(value)) return []
  if (typeof value !== 'object' || value === null) return undefined
  for (const [name, member] of Object.entries(value)) {
    const rest = placeOfInfinite(member)
    if (rest) return [Array.isArray(value) ? Number(name) : name, ...rest]
  }
  return undefined
}

const isInfinite = (value: unknown): boolean => value === Infinity || value === -Infinity
