import { LRUCache } from 'lru-cache'
import type { CallableEndpointRow } from '../../db/repositories/endpoints/callable.ts'
import { ApiError, invalidFor, type Issue, tryLater } from '../../domain/errors.ts'
import {
  type CompiledSchema,
  compileWeighed,
  type Fault,
  faultsOf,
} from '../../platform/schema-checks/check.ts'
import type { CheckResult, SchemaChecks } from '../../platform/schema-checks/checks.ts'
import { UserSchemaError } from '../../platform/schema-checks/user-schema.ts'
import { toIssues } from '../http/issues.ts'

/** Schemas that are compiled here: 10 ms at most; larger ones take up to 200 ms (measured), for which a child has the time. */
const SMALL_BYTES = 2 * 1024
const FEW_PATTERNS = 8
const MOST_COMPILED_BYTES = 32 * 1024 * 1024
/** A compiled schema takes at least 16 to 60 KB, and five times its text (measured). */
const COMPILED_BYTES = 32 * 1024
const COMPILED_FACTOR = 6
/** Of the schemas that children compile only that they are large. */
const KNOWN_BYTES = 512
/** The weight of the schema by the bytes of the value: some milliseconds at the very most. */
const MOST_WORK = 1_000_000

type Endpoint = Pick<CallableEndpointRow, 'schema_key' | 'input_schema'>

/** An input as it came, parsed and as JSON text. */
export interface GivenInput {
  value: unknown
  json: Uint8Array
}

/**
 * Holds inputs against the schemas of their endpoints. What is proven to take a moment is done at once; everything else goes
 * to child processes, where it cannot hold up other requests.
 */
export class InputChecks {
  readonly #checks: Pick<SchemaChecks, 'check'>
  // By the schema, so that these outlive a change of the rest.
  readonly #compiled = new LRUCache<string, CompiledSchema | 'large'>({ maxSize: MOST_COMPILED_BYTES })

  constructor(checks: Pick<SchemaChecks, 'check'>) {
    this.#checks = checks
  }

  /** Bytes that the compiled schemas are taken to hold. */
  get bytes(): number {
    return this.#compiled.calculatedSize
  }

  /** Throws `validation_failed` for an input that breaks the endpoint's schema, or cannot be held against it in time. */
  check(endpoint: Endpoint, accountId: string, input: GivenInput): Promise<void> | undefined {
    const compiled = this.#compiledOf(endpoint)
    if (compiled === 'large' || compiled.perPlace * input.json.byteLength > MOST_WORK) {
      return this.#checkAside(endpoint, accountId, input)
    }
    refuse(faultsOf(compiled.validate, input.value))
    return undefined
  }

  async #checkAside(
    { schema_key: key, input_schema }: Endpoint,
    accountId: string,
    { json }: GivenInput,
  ): Promise<void> {
    const result = await this.#checks.check({ owner: accountId, key, schema: input_schema, value: json })
    if ('faults' in result) return refuse(result.faults)
    throw notChecked(result)
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

const isSmall = (schema: string): boolean =>
  schema.length <= SMALL_BYTES && schema.split('"pattern').length <= FEW_PATTERNS + 1

/** What cannot be used is left to a child to say. */
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
    return tryLater(
      'no_capacity',
      'too many inputs of this account are being checked; try again in a moment',
      1,
    )
  }
  const why =
    'unusable' in result
      ? `the input_schema of this endpoint ${result.unusable}`
      : 'holding it against the input_schema of this endpoint takes too long; send less at once, or register the model with a simpler schema'
  const issue: Issue = { loc: ['body', 'input'], msg: why, type: 'json_schema' }
  return new ApiError('validation_failed', `body.input: ${why}`, { details: { issues: [issue] } })
}
