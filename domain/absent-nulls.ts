/** One error of a schema validator. */
interface Fault {
  readonly keyword: string
  /** A JSON Pointer (RFC 6901). */
  readonly instancePath: string
  readonly params: object
  /** The value of the keyword, if the validator is verbose. */
  readonly schema?: unknown
}

interface RemovedNull {
  readonly pointer: string
  readonly parent: Record<string, unknown>
  readonly name: string
}

/** Each round costs one more validation, so their number is bounded. */
const MAX_ROUNDS = 32

/**
 * Removes null members that the schema neither accepts nor requires. Clients that serialize every field of their types
 * send such nulls for absent fields. Validate again as long as `remove` returns true. `faults` then holds the errors to
 * report; it is empty when the value is valid.
 */
export class AbsentNulls<F extends Fault> {
  readonly #value: unknown
  readonly #schema: unknown
  readonly #maxRounds: number
  #last: readonly RemovedNull[] = []
  #rounds = 0
  faults: readonly F[] = []
  /** JSON Pointers of the members removed from the value. */
  readonly removed = new Set<string>()

  /**
   * @param schema the schema of the value. In a union, a member may be nullable in only some of the variants.
   * @param maxRounds the number of validations after which no more members are removed.
   */
  constructor(value: unknown, { schema, maxRounds = MAX_ROUNDS }: { schema?: object; maxRounds?: number }) {
    this.#value = value
    this.#schema = schema
    this.#maxRounds = maxRounds
  }

  /** Accepts the errors of a validation; returns true when it removed a member because of them. */
  remove(faults: readonly F[]): boolean {
    const missing = new Set(this.#last.length > 0 ? faults.map(missingMember) : [])
    const required = this.#last.filter(({ pointer }) => missing.has(pointer))
    if (required.length > 0) {
      // The earlier errors say that the member must not be null, and the client does see a null in its request.
      for (const { parent, name, pointer } of required) {
        parent[name] = null
        this.removed.delete(pointer)
      }
      return false
    }
    this.faults = faults
    this.#last =
      this.#rounds < this.#maxRounds
        ? faults
            .flatMap((fault) => this.#pointersOf(fault))
            .flatMap((pointer) => removeNull(this.#value, pointer) ?? [])
        : []
    if (this.#last.length === 0) return false
    this.#rounds += 1
    for (const { pointer } of this.#last) this.removed.add(pointer)
    return true
  }

  /**
   * Returns JSON Pointers of the values that may have caused the error. If members are mutually exclusive, these are
   * all of them. An unknown member counts only if another variant has it.
   */
  #pointersOf({ keyword, instancePath, params, schema }: Fault): string[] {
    const { passingSchemas, additionalProperty: name } = params as Record<string, unknown>
    if (keyword === 'additionalProperties' && typeof name === 'string')
      return hasMember(this.#schema, stepsOf(instancePath), name) ? [memberPointer(instancePath, name)] : []
    if (keyword !== 'oneOf' || !Array.isArray(passingSchemas) || !Array.isArray(schema)) return [instancePath]
    const names = (schema as { required?: readonly string[] }[]).flatMap(({ required }) => required ?? [])
    return names.map((one) => memberPointer(instancePath, one))
  }
}

/** Returns whether a schema, or one of its variants, has a member at this path of the value. */
function hasMember(schema: unknown, [step, ...rest]: readonly string[], name: string): boolean {
  if (typeof schema !== 'object' || schema === null) return false
  const { properties, items, anyOf, oneOf, allOf } = schema as Record<string, unknown>
  for (const variants of [anyOf, oneOf, allOf])
    if (
      Array.isArray(variants) &&
      variants.some((one) => hasMember(one, step === undefined ? [] : [step, ...rest], name))
    )
      return true
  if (step === undefined) return memberOf(properties, name) !== undefined
  return hasMember(memberOf(properties, step) ?? items, rest, name)
}

/** Returns the JSON Pointer of the missing member if the error is about one. */
function missingMember({ keyword, instancePath, params }: Fault): string | undefined {
  const name: unknown = keyword === 'required' && (params as { missingProperty?: unknown }).missingProperty
  if (typeof name !== 'string') return undefined
  return memberPointer(instancePath, name)
}

const memberPointer = (parent: string, name: string): string =>
  `${parent}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`

const stepsOf = (pointer: string): string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))

/** Removes the object member at a JSON Pointer if it is null. */
export function removeNull(value: unknown, pointer: string): RemovedNull | undefined {
  const steps = stepsOf(pointer)
  const name = steps.pop()
  const parent = steps.reduce(memberOf, value)
  if (name === undefined || memberOf(parent, name) !== null || Array.isArray(parent)) return undefined
  const object = parent as Record<string, unknown>
  delete object[name]
  return { pointer, parent: object, name }
}

function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
  return (value as Record<string, unknown>)[name]
}
