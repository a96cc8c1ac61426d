import type { ErrorObject, ValidateFunction } from 'ajv/dist/2020.js'
import { AbsentNulls } from '../../domain/absent-nulls.ts'
import { weighSchema } from '../../domain/schema-weight.ts'
import { compileUserSchema, prepareUserSchema, UserSchemaError } from './user-schema.ts'

/**
 * The maximum number of subschemas that may apply at one location through references and branches. It is far above what
 * real schemas need.
 */
const MAX_AT_ONCE = 10_000
const MAX_FAULTS = 100
/** The maximum number of rounds: a removal may reveal further nulls, for example in another branch of the schema. */
const MAX_ROUNDS = 8
/** The number of allowed values that are returned with each fault. */
const MAX_ALLOWED = 50

/** The serializable part of an ajv error. */
export type Fault = Pick<ErrorObject, 'keyword' | 'instancePath' | 'schemaPath' | 'params' | 'message'>

/** A compiled schema. */
export interface CompiledSchema {
  readonly validate: ValidateFunction
  /** Returns a validator that reports all faults of a value; compiled on first use. */
  readonly all: () => ValidateFunction
  /** The weight from `weighSchema`: `Infinity` when no bound is known. */
  readonly perPlace: number
}

/** Compiles a schema; throws a `UserSchemaError` for one that is invalid or unbounded. */
export function compileWeighed(given: Readonly<Record<string, unknown>>): CompiledSchema {
  const schema = prepareUserSchema(given)
  const { perPlace, atOnce } = weighSchema(schema)
  if (atOnce > MAX_AT_ONCE) {
    throw new UserSchemaError(
      atOnce === Infinity
        ? 'refers to itself in a loop that never reaches a member or an item'
        : `takes more than ${MAX_AT_ONCE} checks of one value: its references and branches (anyOf, allOf, ...) multiply`,
    )
  }
  let all: ValidateFunction | undefined
  return {
    validate: compileUserSchema(schema),
    all: () => (all ??= compileUserSchema(schema, 'all')),
    perPlace,
  }
}

/** The outcome of a check; the list of faults is empty when the value is valid. */
export interface CheckedValue {
  readonly faults: Fault[]
  /** JSON Pointers of optional members that are null although null is not allowed. They count as absent. */
  readonly removed: string[]
}

/**
 * Validates a value, and removes optional members that are null although null is not allowed. Once one is found,
 * further validations report all of them, so the number of validations does not depend on the number of nulls.
 */
export function checkWithoutNulls({ validate, all }: CompiledSchema, value: unknown): CheckedValue {
  const nulls = new AbsentNulls<ErrorObject>(value, { maxRounds: MAX_ROUNDS })
  let check = validate
  while (nulls.remove(check(value) ? [] : (check.errors ?? []))) check = all()
  const isValid = nulls.faults.length === 0
  return { faults: isValid ? [] : faultsOf(validate, value), removed: [...nulls.removed] }
}

/** Returns the faults of a value; an empty list when it is valid. */
export function faultsOf(validate: ValidateFunction, value: unknown): Fault[] {
  if (validate(value)) return []
  return (validate.errors ?? []).slice(0, MAX_FAULTS).map(toFault)
}

function toFault({ keyword, instancePath, schemaPath, params, message }: ErrorObject): Fault {
  const allowed = (params as { allowedValues?: unknown }).allowedValues
  const shownParams = Array.isArray(allowed)
    ? { ...params, allowedValues: allowed.slice(0, MAX_ALLOWED) }
    : params
  return { keyword, instancePath, schemaPath, params: shownParams, ...(message !== undefined && { message }) }
}
