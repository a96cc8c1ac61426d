import type { RuntimeProfile } from '../../schemas/nodes/runtime-profile.ts'

type Profile = Pick<RuntimeProfile, 'profile_id' | 'model_kind' | 'framework'>

/** The registered profile of a version, and the engine that its endpoint's settings name. */
interface Registered {
  readonly runtime_profile: string
  readonly engine?: string | null
}

/** Returns the entry that a node's served profiles must have for a version. */
export const servedKey = ({ runtime_profile, engine }: Registered): string =>
  engine ? `${runtime_profile} ${engine}` : runtime_profile

/** Returns whether a profile runs the same models as another one, on other hardware or in another way. */
export const isVariant = (one: Profile, other: Profile): boolean =>
  one.profile_id === other.profile_id ||
  (one.model_kind !== undefined &&
    one.framework !== undefined &&
    one.model_kind === other.model_kind &&
    one.framework === other.framework)

/**
 * Returns the keys of the versions that a node serves: of those registered with a profile that it can run or a variant of
 * one, and of those whose settings name an engine that it has for their kind. Another framework does not count by itself,
 * because it may not read the weights: only vLLM reads some quantizations.
 */
export function servedProfiles(runnable: readonly string[], profiles: readonly Profile[]): string[] {
  const able = profiles.filter(({ profile_id }) => runnable.includes(profile_id))
  const keys = profiles.flatMap((profile) => {
    const kin = profiles.filter(
      ({ model_kind }) => model_kind !== undefined && model_kind === profile.model_kind,
    )
    const engines = new Set(kin.flatMap(({ framework }) => framework ?? []))
    const isServed = able.some((one) => isVariant(one, profile))
    const named = [...engines].filter(
      (engine) => isServed || able.some((one) => kin.includes(one) && one.framework === engine),
    )
    return [
      ...(isServed ? [profile.profile_id] : []),
      ...named.map((engine) => servedKey({ runtime_profile: profile.profile_id, engine })),
    ]
  })
  return [...new Set([...runnable, ...keys])]
}
