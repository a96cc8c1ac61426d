import type { ErrorObject, ValidateFunction } from 'ajv/dist/2020.js'
import { weighSchema } from '../../domain/schema-weight.ts'
import { compileUserSchema, prepareUserSchema, UserSchemaError } from './user-schema.ts'

/** Subschemas that one place of a value may be held against through references and branches: far above what people write. */
const MOST_AT_ONCE = 10_000
const MOST_FAULTS = 100
/** Of a list of allowed values, which comes back with each fault. */
const MOST_ALLOWED = 50

/** What ajv found, as far as it can be told. */
export type Fault = Pick<ErrorObject, 'keyword' | 'instancePath' | 'schemaPath' | 'params' | 'message'>

/** A schema ready to be held against values. */
export interface CompiledSchema {
  readonly validate: ValidateFunction
  /** As `weighSchema` says: `Infinity` where no bound is known. */
  readonly perPlace: number
}

/** Throws a `UserSchemaError` for a schema that cannot be used, or that would be worked through without an end. */
export function compileWeighed(given: Readonly<Record<string, unknown>>): CompiledSchema {
  const schema = prepareUserSchema(given)
  const { perPlace, atOnce } = weighSchema(schema)
  if (atOnce > MOST_AT_ONCE) {
    throw new UserSchemaError(
      atOnce === Infinity
        ? 'refers to itself in a circle that never comes to a member or an item'
        : `takes more than ${MOST_AT_ONCE} checks of one value: its references and branches (anyOf, allOf, ...) multiply`,
    )
  }
  return { validate: compileUserSchema(schema), perPlace }
}

/** The faults of a value, none when it fits. */
export function faultsOf(validate: ValidateFunction, value: unknown): Fault[] {
  if (validate(value)) return []
  return (validate.errors ?? []).slice(0, MOST_FAULTS).map(toFault)
}

function toFault({ keyword, instancePath, schemaPath, params, message }: ErrorObject): Fault {
  const allowed = (params as { allowedValues?: unknown }).allowedValues
  const told = Array.isArray(allowed) ? { ...params, allowedValues: allowed.slice(0, MOST_ALLOWED) } : params
  return { keyword, instancePath, schemaPath, params: told, ...(message !== undefined && { message }) }
}
