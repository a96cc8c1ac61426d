import type { SpaceKind } from '../../schemas/cohort-vocabulary.ts'
import { valueAt, withValueAt } from './pointer.ts'

const PLACEHOLDER = '{{value}}'

/** Where a value comes from and goes to, and the text around it. */
export interface ValueEdge {
  from_path: string
  to_path: string
  template: string | null
}

/** Returns what an edge carries of a result; undefined when its place is empty. */
export function carriedBy({ from_path, template }: Omit<ValueEdge, 'to_path'>, result: unknown): unknown {
  const value = valueAt(result, from_path)
  if (value === undefined || template === null) return value
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  // A function, because `$&` and the like in a text would otherwise be replaced.
  return template.replace(PLACEHOLDER, () => text)
}

/** Returns an input with a carried value at its place; throws a `PointerError` where there is no such place. */
export const withCarried = (
  input: Record<string, unknown>,
  { to_path }: Pick<ValueEdge, 'to_path'>,
  value: unknown,
): Record<string, unknown> => withValueAt(input, to_path, value) as Record<string, unknown>

/** Returns whether an edge of a kind carries a value, which goes with the result of its producer. */
export const isByValue = (kind: SpaceKind): boolean => kind === 'text' || kind === 'json' || kind === 'media'

/** The fingerprints of values: every text fits every text, and so do JSON values and files. Each is that of its kind alone. */
export const VALUE_FINGERPRINTS = {
  text: '560edb753473e538f5dab5d6947e8f7e3b6fe1498f309612cba7bdb6219f0b2c',
  json: '7b4a332333bbd6f33d95fff13761f83a7bdac3e106095d5b6361a761496b3cef',
  media: 'b36d7fb0c342adaabf74a546498ded9216c74612cf695bde6bbcf7cedbdf8fac',
} as const
