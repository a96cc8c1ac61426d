import { isVariant } from '../../domain/placement/served-profiles.ts'
import { profileFor } from '../../domain/serving.ts'
import type { Catalog } from '../../platform/catalog.ts'
import type { NodeModelSpec } from '../../schemas/nodes/node.ts'
import type { RuntimeProfile } from '../../schemas/nodes/runtime-profile.ts'
import { type Architecture, architectureIn } from './options.ts'

export interface EngineOptions {
  catalog: Pick<Catalog, 'profiles' | 'profile'>
  /** The ids of the profiles that this machine can run. */
  runnable: readonly string[]
  /** Returns whether the memory of this node can hold a model with a profile. */
  fits: (spec: NodeModelSpec, profile: RuntimeProfile) => boolean
}

/**
 * Returns the profiles with which this node can serve a model, best first, with the settings of its serving. The last one
 * always qualifies: it is the profile that the version was registered with, or else a variant that this node can run, or the
 * one of the engine that the serving names. Throws for an unknown profile.
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
  const variant = runnable.includes(found.profile_id) ? undefined : kin.find((one) => isVariant(one, found))
  const own = variant ?? profileFor(found, spec.serving)
  const chosen = kin.find(({ framework }) => framework === engine)
  // The upstream server cannot hand prompts over, so stages of cohorts still need the own one.
  if (engine === 'llama-server' && chosen) return [chosen, own]
  if (engine !== 'auto') return [chosen ?? own]
  const better = kin.filter((profile) => preferenceOf(profile) > preferenceOf(own) && fits(spec, profile))
  return [...better, own]
}

const preferenceOf = ({ preference = 0 }: RuntimeProfile): number => preference

/** The environments, packages and images that profiles need. */
export interface ProfileNeeds {
  /** Returns whether a locked environment is installed. */
  hasPython: (environment: string) => Promise<boolean>
  /** Returns the interpreter of a locked environment; the first call installs the environment. */
  pythonOf: (environment: string) => Promise<string>
  /** Returns whether a locked set of npm packages is installed. */
  hasPackages: (environment: string) => Promise<boolean>
  /** Returns the folder of a locked set of npm packages; the first call installs them. */
  packagesOf: (environment: string) => Promise<string>
  /** Returns whether a container image is on this machine. */
  hasImage: (image: string) => Promise<boolean>
  /** Waits until a container image is on this machine; the first call pulls it. */
  imageOf: (image: string) => Promise<void>
}

export interface EngineChoice extends ProfileNeeds {
  /** Returns whether a profile other than the version's own must not be used. */
  isAvoided: (profileId: string) => boolean
  /** Called with a profile that the settings of the model rule out, and the reason. */
  onUnsuited: (profileId: string, reason: string) => void
}

/**
 * Returns the first profile that implements a model and isn't avoided; the last one always qualifies. If its environment
 * or image is missing, the first one that is ready serves for now, and the better one is installed for a later load.
 */
export async function chooseEngine(
  engines: readonly RuntimeProfile[],
  modelDir: string,
  choice: EngineChoice,
): Promise<RuntimeProfile> {
  const found = engines.length > 1 ? await architectureIn(modelDir) : undefined
  const suited = [
    ...engines.slice(0, -1).filter((profile) => suits(profile, found, choice)),
    ...engines.slice(-1),
  ]
  const [best] = suited
  if (!best) throw new Error('there is no profile to choose from')
  for (const profile of suited) {
    if (!(await isReady(profile, choice))) continue
    if (profile !== best) install(best, choice)
    return profile
  }
  return best
}

function suits(
  profile: RuntimeProfile,
  found: Architecture | undefined,
  { isAvoided, onUnsuited }: EngineChoice,
): boolean {
  if (isAvoided(profile.profile_id) || !implementsModel(profile, found)) return false
  const problem = divisionProblem(profile, found)
  if (problem !== undefined) onUnsuited(profile.profile_id, problem)
  return problem === undefined
}

/** Returns whether everything that a profile needs is on this machine. */
const isReady = async (
  { python_env, npm_env, image }: RuntimeProfile,
  { hasPython, hasPackages, hasImage }: ProfileNeeds,
): Promise<boolean> =>
  (python_env === null || (await hasPython(python_env))) &&
  (npm_env === undefined || (await hasPackages(npm_env))) &&
  (image === undefined || (await hasImage(image)))

/** Installs what a profile needs in the background. The next load that needs it gets the error. */
function install(
  { python_env, npm_env, image }: RuntimeProfile,
  { pythonOf, packagesOf, imageOf }: ProfileNeeds,
): void {
  if (python_env !== null) pythonOf(python_env).catch(() => {})
  if (npm_env !== undefined) packagesOf(npm_env).catch(() => {})
  if (image !== undefined) imageOf(image).catch(() => {})
}

/**
 * Returns whether the engine of a profile implements the architecture in a model's config.json, and has options for its
 * type: without a parser, vLLM rejects requests with tools, which the own server accepts for any model.
 */
function implementsModel(
  { architectures, model_options }: RuntimeProfile,
  found: Architecture | undefined,
): boolean {
  if (!architectures) return true
  if (!found || (model_options && !Object.hasOwn(model_options, found.type))) return false
  return found.architectures.some((name) => architectures.includes(name))
}

/** Returns why a model can't be divided among the GPUs of a profile; undefined if it can, or if that is unknown. */
function divisionProblem(
  { tensor_parallel = 1 }: RuntimeProfile,
  { heads }: Partial<Architecture> = {},
): string | undefined {
  if (heads === undefined || heads % tensor_parallel === 0) return undefined
  return `the ${heads} attention heads of the model cannot be divided among ${tensor_parallel} GPUs (tensor_parallel)`
}
