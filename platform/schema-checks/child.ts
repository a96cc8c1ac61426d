import { Script } from 'node:vm'
import { type CheckedValue, checkWithoutNulls, type CompiledSchema, compileWeighed } from './check.ts'
import { UserSchemaError } from './user-schema.ts'

/** A value to validate against a schema; `schema` is included if the child has not cached the key. */
export interface CheckOrder {
  readonly key: string
  readonly schema: string | undefined
  /** JSON text. */
  readonly value: Uint8Array
  /** True to drop all schemas sent so far. */
  readonly forget: boolean
  readonly deadlineMs: number
}

export type CheckReply =
  | CheckedValue
  /** The reason why the schema cannot be used. */
  | { readonly unusable: string }
  /** The check exceeded the time limit or the stack. */
  | { readonly stopped: true }

const schemas = new Map<string, CompiledSchema>()
const decoder = new TextDecoder()

function check({ key, schema, value, forget }: CheckOrder): CheckReply {
  if (forget) schemas.clear()
  try {
    let compiled = schemas.get(key)
    if (!compiled) {
      if (schema === undefined) throw new Error(`there is no schema under the key ${key}`)
      compiled = compileWeighed(JSON.parse(schema) as Record<string, unknown>)
      schemas.set(key, compiled)
    }
    return checkWithoutNulls(compiled, JSON.parse(decoder.decode(value)))
  } catch (err) {
    if (err instanceof UserSchemaError) return { unusable: err.message }
    if (err instanceof RangeError) return { stopped: true }
    throw err
  }
}

/** Stops a check with the script's own timeout, which works even after the parent has exited. */
const timed = new Script('hearthCheck()')

function checkInTime(order: CheckOrder): CheckReply {
  Object.assign(globalThis, { hearthCheck: () => check(order) })
  try {
    return timed.runInThisContext({ timeout: order.deadlineMs }) as CheckReply
  } catch (err) {
    if ((err as { code?: unknown }).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') return { stopped: true }
    throw err
  }
}

process.on('message', (order: CheckOrder) => process.send?.(checkInTime(order)))
process.send?.('ready')
