import type { SpaceKind } from '../../schemas/cohorts/vocabulary.ts'
import { valueAt, withValueAt } from './pointer.ts'

const PLACEHOLDER = '{{value}}'

/** The source and target of a value and the template around it. */
export interface ValueEdge {
  from_path: string
  to_path: string
  template: string | null
}

/** Returns what an edge carries from a result; undefined when there is nothing at its path. */
export function carriedBy({ from_path, template }: Omit<ValueEdge, 'to_path'>, result: unknown): unknown {
  const value = valueAt(result, from_path)
  if (value === undefined || template === null) return value
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  // Pass a function, because `$&` and the like in a replacement string would be expanded.
  return template.replace(PLACEHOLDER, () => text)
}

/** Returns an input with a carried value at its path; throws a `PointerError` if the path is invalid. */
export const withCarried = (
  input: Record<string, unknown>,
  { to_path }: Pick<ValueEdge, 'to_path'>,
  value: unknown,
): Record<string, unknown> => withValueAt(input, to_path, value) as Record<string, unknown>

const BY_VALUE: readonly SpaceKind[] = ['text', 'json', 'media', 'tokens']

/** Returns whether edges of this kind carry a value, which is sent with the result of its producer. */
export const isByValue = (kind: SpaceKind): boolean => BY_VALUE.includes(kind)

/** Token ids are 32-bit. */
const MAX_TOKEN_ID = 2 ** 31 - 1

/** Returns why an edge of this kind cannot carry the value; undefined when it can. */
export function faultOfValue(kind: SpaceKind, value: unknown): string | undefined {
  if (kind !== 'tokens') return undefined
  const isId = (one: unknown) => Number.isInteger(one) && Number(one) >= 0 && Number(one) <= MAX_TOKEN_ID
  const isList = Array.isArray(value) && value.length > 0
  return isList && value.every(isId)
    ? undefined
    : 'must be a non-empty list of token ids (whole numbers, 0 or more)'
}

/**
 * The fingerprints of value kinds. Any text fits any text, and the same holds for JSON values and files, so each
 * fingerprint depends only on the kind.
 */
export const VALUE_FINGERPRINTS = {
  text: '560edb753473e538f5dab5d6947e8f7e3b6fe1498f309612cba7bdb6219f0b2c',
  json: '7b4a332333bbd6f33d95fff13761f83a7bdac3e106095d5b6361a761496b3cef',
  media: 'b36d7fb0c342adaabf74a546498ded9216c74612cf695bde6bbcf7cedbdf8fac',
} as const
