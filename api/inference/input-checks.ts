import { LRUCache } from 'lru-cache'
import type { CallableEndpointRow } from '../../db/repositories/endpoints/callable.ts'
import { removeNull } from '../../domain/absent-nulls.ts'
import { ApiError, invalidFor, type Issue, temporaryError } from '../../domain/errors.ts'
import {
  type CheckedValue,
  checkWithoutNulls,
  type CompiledSchema,
  compileWeighed,
  type Fault,
} from '../../platform/schema-checks/check.ts'
import type { CheckResult, SchemaChecks } from '../../platform/schema-checks/checks.ts'
import { UserSchemaError } from '../../platform/schema-checks/user-schema.ts'
import { toIssues } from '../http/issues.ts'

/**
 * Smaller schemas are compiled in this process, in at most 10 ms. Larger ones may take 200 ms, so a child process
 * compiles them.
 */
const SMALL_BYTES = 2 * 1024
const FEW_PATTERNS = 8
const MAX_COMPILED_BYTES = 32 * 1024 * 1024
/**
 * A compiled schema takes 16 to 60 KB, or about five times its text if that is more, and so does its all-errors
 * variant.
 */
const COMPILED_BYTES = 64 * 1024
const COMPILED_FACTOR = 12
/** The cache entry of a large schema only records that it is large. */
const KNOWN_BYTES = 512
/** The limit on a schema's weight times the value's bytes, which keeps validation to a few milliseconds. */
const MAX_WORK = 1_000_000

type Endpoint = Pick<CallableEndpointRow, 'schema_key' | 'input_schema'>

/** A client's input, parsed and as JSON text. A check removes optional members that are null. */
export interface ClientInput {
  readonly value: unknown
  json: Buffer
}

/**
 * Validates inputs against their endpoints' schemas. Checks with a proven cost bound run in this process; all others
 * run in child processes, where they can't delay other requests.
 */
export class InputChecks {
  readonly #checks: Pick<SchemaChecks, 'check'>
  // Keyed by the schema, so entries survive changes to an endpoint's other fields.
  readonly #compiled = new LRUCache<string, CompiledSchema | 'large'>({ maxSize: MAX_COMPILED_BYTES })

  constructor(checks: Pick<SchemaChecks, 'check'>) {
    this.#checks = checks
  }

  /** The estimated size of the compiled schemas in bytes. */
  get bytes(): number {
    return this.#compiled.calculatedSize
  }

  /** Throws `validation_failed` for an input that violates the endpoint's schema or can't be validated in time. */
  check(endpoint: Endpoint, accountId: string, input: ClientInput): Promise<void> | undefined {
    const compiled = this.#compiledOf(endpoint)
    if (compiled === 'large' || compiled.perPlace * input.json.byteLength > MAX_WORK) {
      return this.#checkAside(endpoint, accountId, input)
    }
    accept(input, checkWithoutNulls(compiled, input.value))
    return undefined
  }

  async #checkAside(
    { schema_key: key, input_schema }: Endpoint,
    accountId: string,
    input: ClientInput,
  ): Promise<void> {
    const result = await this.#checks.check({
      owner: accountId,
      key,
      schema: input_schema,
      value: input.json,
    })
    if (!('faults' in result)) throw notChecked(result)
    // The child process removed null members from its own copy only.
    for (const pointer of result.removed) removeNull(input.value, pointer)
    accept(input, result)
  }

  #compiledOf(endpoint: Endpoint): CompiledSchema | 'large' {
    const known = this.#compiled.get(endpoint.schema_key)
    if (known) return known
    const text = JSON.stringify(endpoint.input_schema)
    const compiled = isSmall(text) ? compiledHere(endpoint.input_schema) : 'large'
    const size = compiled === 'large' ? KNOWN_BYTES : COMPILED_BYTES + COMPILED_FACTOR * text.length
    this.#compiled.set(endpoint.schema_key, compiled, { size })
    return compiled
  }
}

/** Throws for an invalid input. If null members were removed, serializes the input's JSON text again. */
function accept(input: ClientInput, { faults, removed }: CheckedValue): void {
  refuse(faults)
  if (removed.length > 0) input.json = Buffer.from(JSON.stringify(input.value))
}

const isSmall = (schema: string): boolean =>
  schema.length <= SMALL_BYTES && schema.split('"pattern').length <= FEW_PATTERNS + 1

/** Treats an invalid schema as large, because the child process reports the error. */
function compiledHere(schema: CallableEndpointRow['input_schema']): CompiledSchema | 'large' {
  try {
    return compileWeighed(schema)
  } catch (err) {
    if (err instanceof UserSchemaError) return 'large'
    throw err
  }
}

function refuse(faults: readonly Fault[]): void {
  if (faults.length === 0) return
  const issues = toIssues('body', faults).map(({ loc: [where, ...rest], msg, type }): Issue => ({
    loc: [where ?? 'body', 'input', ...rest],
    msg,
    type,
  }))
  throw invalidFor(issues)
}

function notChecked(result: Exclude<CheckResult, { faults: unknown }>): ApiError {
  if ('busy' in result) {
    return temporaryError(
      'no_capacity',
      'too many inputs from this account are being checked; try again in a moment',
      1,
    )
  }
  const why =
    'unusable' in result
      ? `the input_schema of this endpoint ${result.unusable}`
      : "validating it against this endpoint's input_schema takes too long; send less data per request, or register the model with a simpler schema"
  const issue: Issue = { loc: ['body', 'input'], msg: why, type: 'json_schema' }
  return new ApiError('validation_failed', `body.input: ${why}`, { details: { issues: [issue] } })
}
