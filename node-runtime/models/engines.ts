import { profileFor } from '../../domain/serving.ts'
import type { Catalog } from '../../platform/catalog.ts'
import type { NodeModelSpec } from '../../schemas/nodes/node.ts'
import type { RuntimeProfile } from '../../schemas/nodes/runtime-profile.ts'
import { architectureIn } from './options.ts'

export interface EngineOptions {
  catalog: Pick<Catalog, 'profiles' | 'profile'>
  /** The ids of the profiles that this machine can run. */
  runnable: readonly string[]
  /** Returns whether the memory of this node can hold a model with a profile. */
  fits: (spec: NodeModelSpec, profile: RuntimeProfile) => boolean
}

/**
 * Returns the profiles with which this node can serve a model, best first, with the settings of its serving. The last one
 * always qualifies: it is the profile that the version was registered with, or the one of the engine that the serving
 * names. Throws for an unknown profile.
 */
export function enginesOf(
  spec: NodeModelSpec,
  { catalog, runnable, fits }: EngineOptions,
): [...RuntimeProfile[], RuntimeProfile] {
  const found = catalog.profile(spec.runtime_profile)
  if (!found) throw new Error(`this node does not know the runtime profile ${spec.runtime_profile}`)
  const { engine = 'auto' } = spec.serving ?? {}
  const kin = catalog.profiles
    .filter(
      ({ profile_id, model_kind }) =>
        found.model_kind !== undefined && model_kind === found.model_kind && runnable.includes(profile_id),
    )
    .map((profile) => profileFor(profile, spec.serving))
    .toSorted((a, b) => preferenceOf(b) - preferenceOf(a))
  const own = profileFor(found, spec.serving)
  if (engine !== 'auto') return [kin.find(({ framework }) => framework === engine) ?? own]
  const better = kin.filter((profile) => preferenceOf(profile) > preferenceOf(own) && fits(spec, profile))
  return [...better, own]
}

const preferenceOf = ({ preference = 0 }: RuntimeProfile): number => preference

export interface EngineChoice {
  /** Returns whether a profile other than the version's own must not be used. */
  isAvoided: (profileId: string) => boolean
  /** Called with a profile that the settings of the model rule out, and the reason. */
  onUnsuited: (profileId: string, reason: string) => void
  hasPython: (environment: string) => Promise<boolean>
  /** Installs a locked environment. */
  pythonOf: (environment: string) => Promise<string>
  hasPackages: (environment: string) => Promise<boolean>
  /** Installs a locked set of npm packages. */
  packagesOf: (environment: string) => Promise<string>
}

type Environments = Pick<RuntimeProfile, 'python_env' | 'npm_env'>

/**
 * Returns the first profile that implements a model and isn't avoided; the last one always qualifies. If only the last
 * one's environment is installed, it serves for now, and the better one is installed for a later load.
 */
export async function chooseEngine(
  engines: readonly RuntimeProfile[],
  modelDir: string,
  { isAvoided, onUnsuited, hasPython, pythonOf, hasPackages, packagesOf }: EngineChoice,
): Promise<RuntimeProfile> {
  const isInstalled = async ({ python_env, npm_env }: Environments) =>
    (python_env === null || (await hasPython(python_env))) &&
    (npm_env === undefined || (await hasPackages(npm_env)))
  const own = engines.at(-1)
  if (!own) throw new Error('there is no profile to choose from')
  for (const profile of engines.slice(0, -1)) {
    if (isAvoided(profile.profile_id) || !(await implementsModel(profile, modelDir))) continue
    const problem = await divisionProblem(profile, modelDir)
    if (problem !== undefined) {
      onUnsuited(profile.profile_id, problem)
      continue
    }
    if ((await isInstalled(profile)) || !(await isInstalled(own))) return profile
    const { python_env, npm_env } = profile
    if (python_env !== null) pythonOf(python_env).catch(() => {})
    if (npm_env !== undefined) packagesOf(npm_env).catch(() => {})
  }
  return own
}

/**
 * Returns whether the engine of a profile implements the architecture in a model's config.json, and has options for its
 * type: without a parser, vLLM rejects requests with tools, which the own server accepts for any model.
 */
async function implementsModel(
  { architectures, model_options }: RuntimeProfile,
  modelDir: string,
): Promise<boolean> {
  if (!architectures) return true
  const found = await architectureIn(modelDir)
  if (!found || (model_options && !Object.hasOwn(model_options, found.type))) return false
  return found.architectures.some((name) => architectures.includes(name))
}

/** Returns why a model can't be divided among the GPUs of a profile; undefined if it can, or if that is unknown. */
async function divisionProblem(
  { tensor_parallel = 1 }: RuntimeProfile,
  modelDir: string,
): Promise<string | undefined> {
  const heads = (await architectureIn(modelDir))?.heads
  if (heads === undefined || heads % tensor_parallel === 0) return undefined
  return `the ${heads} attention heads of the model cannot be divided among ${tensor_parallel} GPUs (tensor_parallel)`
}
