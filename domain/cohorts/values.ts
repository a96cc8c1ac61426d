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

const BY_VALUE: readonly SpaceKind[] = ['text', 'json', 'media', 'tokens']

/** Returns whether an edge of a kind carries a value, which goes with the result of its producer. */
export const isByValue = (kind: SpaceKind): boolean => BY_VALUE.includes(kind)

/** Ids of tokens are of 32 bits. */
const MAX_TOKEN_ID = 2 ** 31 - 1

/** Returns why a value cannot be what an edge of a kind carries; undefined when it can. */
export function faultOfValue(kind: SpaceKind, value: unknown): string | undefined {
  if (kind !== 'tokens') return undefined
  const isId = (one: unknown) => Number.isInteger(one) && Number(one) >= 0 && Number(one) <= MAX_TOKEN_ID
  const isList = Array.isArray(value) && value.length > 0
  return isList && value.every(isId)
    ? undefined
    : 'must be a list of ids of tokens, whole numbers from 0, with at least one'
}

/** The fingerprints of values: every text fits every text, and so do JSON values and files. Each is that of its kind alone. */
export const VALUE_FINGERPRINTS = {
  text: '560edb753473e538f5dab5d6947e8f7e3b6fe1498f309612cba7bdb6219f0b2c',
  json: '7b4a332333bbd6f33d95fff13761f83a7bdac3e106095d5b6361a761496b3cef',
  media: 'b36d7fb0c342adaabf74a546498ded9216c74612cf695bde6bbcf7cedbdf8fac',
} as const
