/** The label for all values beyond the maximum. */
export const OTHER = 'other'

/**
 * Bounds the values of a label: the first ones keep their name, and all later ones become `other`. Each value is a time
 * series for as long as the process runs.
 */
export class BoundedLabel {
  readonly #max: number
  readonly #values = new Set<string>()

  constructor(max: number) {
    this.#max = max
  }

  of(value: string): string {
    if (this.#values.has(value)) return value
    if (this.#values.size >= this.#max) return OTHER
    this.#values.add(value)
    return value
  }
}

/** Returns the entries with the largest values, and the sum of all others as `other`. */
export function largest(values: ReadonlyMap<string, number>, max: number): [string, number][] {
  if (values.size <= max) return [...values]
  const sorted = [...values].toSorted(([, a], [, b]) => b - a)
  const others = sorted.slice(max).reduce((sum, [, value]) => sum + value, 0)
  return [...sorted.slice(0, max), [OTHER, others]]
}
