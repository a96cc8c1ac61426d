/** A fault of a value, as validators report it. */
interface Fault {
  readonly keyword: string
  /** A JSON Pointer (RFC 6901). */
  readonly instancePath: string
  readonly params: object
}

interface Removed {
  readonly pointer: string
  readonly parent: Record<string, unknown>
  readonly name: string
}

/** Each removal costs one more validation, so their number is bounded. */
const MAX_ROUNDS = 32

/**
 * Removes members of a value that are null where their schema accepts no null and does not require them. Clients write
 * all fields of their types, so such a null means that the field is absent. The caller validates again as long as
 * `remove` returns true; `faults` are those to report, and none when the value is valid.
 */
export class AbsentNulls<F extends Fault> {
  readonly #value: unknown
  #last: readonly Removed[] = []
  #rounds = 0
  faults: readonly F[] = []

  constructor(value: unknown) {
    this.#value = value
  }

  /** True once a member has been removed from the value. */
  get hasRemoved(): boolean {
    return this.#rounds > 0
  }

  /** Takes the faults of a validation; returns true when it removed a member because of them. */
  remove(faults: readonly F[]): boolean {
    const required = this.#last.filter((member) => faults.some((fault) => isMissing(fault, member)))
    if (required.length > 0) {
      // The earlier faults say that the member must not be null, which is what the client sees in its request.
      for (const { parent, name } of required) parent[name] = null
      return false
    }
    this.faults = faults
    this.#last =
      this.#rounds < MAX_ROUNDS
        ? faults.flatMap(({ instancePath }) => removeNull(this.#value, instancePath) ?? [])
        : []
    if (this.#last.length === 0) return false
    this.#rounds += 1
    return true
  }
}

function isMissing({ keyword, instancePath, params }: Fault, { pointer, name }: Removed): boolean {
  if (keyword !== 'required' || (params as { missingProperty?: unknown }).missingProperty !== name)
    return false
  return pointer.startsWith(`${instancePath}/`) && !pointer.slice(instancePath.length + 1).includes('/')
}

function removeNull(value: unknown, pointer: string): Removed | undefined {
  const steps = pointer
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
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
