import { bytesOfName, MAX_COLUMNS, MAX_NAMES_BYTES, type ColumnType, type DatasetColumn } from './profile.ts'

const DATE = /^\d{4}-\d{2}-\d{2}$/
const TIMESTAMP = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}(?::?\d{2})?)?$/
const TEXTS: readonly ColumnType[] = ['date', 'timestamp', 'string']
const NUMBERS: readonly ColumnType[] = ['integer', 'number']

/** The keys of JSON objects, with the common type of each key's values. */
export class JsonColumns {
  readonly #types = new Map<string, ColumnType | undefined>()
  #nameBytes = 0

  add(row: object): void {
    for (const [name, value] of Object.entries(row)) {
      if (!this.#types.has(name)) {
        // One entry beyond the limit is enough to detect the excess.
        if (this.#types.size > MAX_COLUMNS || this.#nameBytes > MAX_NAMES_BYTES) continue
        this.#nameBytes += bytesOfName(name)
      }
      this.#types.set(name, common(this.#types.get(name), typeOf(value)))
    }
  }

  all(): DatasetColumn[] {
    return [...this.#types].map(([name, type]) => ({ name, type: type ?? 'any' }))
  }
}

function common(a: ColumnType | undefined, b: ColumnType | undefined): ColumnType | undefined {
  if (a === undefined || b === undefined || a === b) return a ?? b
  if (NUMBERS.includes(a) && NUMBERS.includes(b)) return 'number'
  if (!TEXTS.includes(a) || !TEXTS.includes(b)) return 'any'
  return a === 'string' || b === 'string' ? 'string' : 'timestamp'
}

function typeOf(value: unknown): ColumnType | undefined {
  if (value === null) return undefined
  if (typeof value === 'boolean') return 'boolean'
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number'
  if (typeof value === 'string')
    return DATE.test(value) ? 'date' : TIMESTAMP.test(value) ? 'timestamp' : 'string'
  return Array.isArray(value) ? 'list' : 'object'
}
