import type { ModelSpace } from '../../schemas/cohort-evaluator.ts'
import type { SpaceKind } from '../../schemas/cohort-vocabulary.ts'
import { canonicalJson } from '../canonical-json.ts'

/** The kinds whose values mean something only beside the weights that made them. */
const OF_WEIGHTS: readonly SpaceKind[] = ['embedding', 'hidden_state', 'kv_cache']
/** The kinds that evidence can connect. */
const EVIDENCED: readonly SpaceKind[] = ['embedding', 'hidden_state', 'kv_cache']

/** The kinds whose values a consumer can bring into another space by a map. */
export const MAPPED: readonly SpaceKind[] = ['embedding']

export const takesEvidence = (kind: SpaceKind): boolean => EVIDENCED.includes(kind)

/** Returns what identifies a model: the paths and digests of its files. */
export const identityOfFiles = (files: readonly { path: string; sha256: string }[]): string =>
  canonicalJson(
    files.map(({ path, sha256 }) => [path, sha256]).toSorted(([a = ''], [b = '']) => (a < b ? -1 : 1)),
  )

/** Returns a space as it is stored: with the digest of its model where none is named, its media types in order. */
export function completeSpace(space: ModelSpace, digest: string): ModelSpace {
  const { content_types: types } = space
  return {
    ...space,
    ...(OF_WEIGHTS.includes(space.kind) && { weights_digest: space.weights_digest ?? digest }),
    ...(types && { content_types: [...new Set(types)].toSorted() }),
  }
}

/**
 * Returns what identifies a completed space, from which its fingerprint is made. Its name, its direction and its limit
 * are no part of it, and texts are all alike.
 */
export function identityOfSpace({
  name: _name,
  role: _role,
  max_tokens: _limit,
  ...rest
}: ModelSpace): string {
  return canonicalJson(rest.kind === 'text' ? { kind: 'text' } : rest)
}
