import type { ModelSpace } from '../../../schemas/cohorts/evaluator.ts'
import type { SpaceKind } from '../../../schemas/cohorts/vocabulary.ts'
import { canonicalJson } from '../../canonical-json.ts'

/** Kinds whose values are only meaningful together with the weights that produced them. */
const OF_WEIGHTS: readonly SpaceKind[] = ['embedding', 'hidden_state', 'kv_cache']
/** The kinds that evidence can connect. */
const EVIDENCED: readonly SpaceKind[] = ['embedding', 'hidden_state', 'kv_cache']

/** Kinds whose values a consumer can map into another space. */
export const MAPPED: readonly SpaceKind[] = ['embedding']

export const takesEvidence = (kind: SpaceKind): boolean => EVIDENCED.includes(kind)

/** Returns the identity of a model: the paths and digests of its files. */
export const identityOfFiles = (files: readonly { path: string; sha256: string }[]): string =>
  canonicalJson(
    files.map(({ path, sha256 }) => [path, sha256]).toSorted(([a = ''], [b = '']) => (a < b ? -1 : 1)),
  )

/** Returns a space as it is stored: with its model's digest if it names none, and its media types sorted. */
export function completeSpace(space: ModelSpace, digest: string): ModelSpace {
  const { content_types: types } = space
  return {
    ...space,
    ...(OF_WEIGHTS.includes(space.kind) && { weights_digest: space.weights_digest ?? digest }),
    ...(types && { content_types: [...new Set(types)].toSorted() }),
  }
}

/**
 * Returns the identity of a completed space, from which its fingerprint is computed. Name, role and limit are not part
 * of it, and all text spaces are alike.
 */
export function identityOfSpace({
  name: _name,
  role: _role,
  max_tokens: _limit,
  ...rest
}: ModelSpace): string {
  return canonicalJson(rest.kind === 'text' ? { kind: 'text' } : rest)
}
