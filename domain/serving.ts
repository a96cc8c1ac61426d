import type { RuntimeProfile } from '../schemas/nodes/runtime-profile.ts'
import type { Serving } from '../schemas/nodes/serving.ts'
import { freeMemoryOn, gpuCount, gpusPerModel, type NodeGpus } from './placement/gpu-capacity.ts'

type Rule = NonNullable<RuntimeProfile['engine_args']>[string]
type Profile = Pick<
  RuntimeProfile,
  'profile_id' | 'model_kind' | 'framework' | 'command' | 'vram_share' | 'serving_options' | 'engine_args'
>

/** Returns the field of a serving that no engine of the version's kind accepts, and why; undefined if all are accepted. */
export function servingProblem(
  serving: Serving,
  { runtime_profile }: { runtime_profile: string },
  profiles: readonly Profile[],
): { field: string; message: string } | undefined {
  const able = enginesFor(runtime_profile, profiles)
  if (able.length === 0) return { field: 'serving', message: 'only language models have these settings' }
  const { engine = 'auto' } = serving
  const kind = able[0]?.model_kind
  if (engine !== 'auto' && !profiles.some((one) => one.model_kind === kind && one.framework === engine))
    return { field: 'serving.engine', message: `${engine} does not serve this kind of model` }
  const conflict = conflictIn(serving, able)
  if (conflict) return conflict
  const { engine_args = {} } = serving
  const allowed = Object.fromEntries(able.flatMap((profile) => Object.entries(profile.engine_args ?? {})))
  for (const [name, value] of Object.entries(engine_args)) {
    const field = `serving.engine_args.${name}`
    if (!Object.hasOwn(allowed, name)) {
      const known = Object.keys(allowed).toSorted().join(', ')
      return { field, message: `this platform does not allow this argument; allowed: ${known || 'none'}` }
    }
    const expected = expectation(allowed[name], value)
    if (expected) return { field, message: `must be ${expected}` }
  }
  return undefined
}

/** Returns the field of a serving that needs more than any node of an account has, and why; undefined otherwise. */
export function fleetProblem(
  { tensor_parallel = 1, gpu_memory_mb }: Serving,
  { runtime_profile }: { runtime_profile: string },
  { profiles, nodes }: { profiles: readonly Profile[]; nodes: readonly NodeGpus[] },
): { field: string; message: string } | undefined {
  const most = Math.max(0, ...nodes.map(gpusPerModel))
  if (tensor_parallel > 1 && most < tensor_parallel) {
    const message = `must be at most ${Math.max(1, most)}: the largest node that works for your account has ${gpuCount(most)}`
    return { field: 'serving.tensor_parallel', message }
  }
  // Without a GPU node, there is no size to compare with, and the setting has no effect.
  if (gpu_memory_mb === undefined || most === 0) return undefined
  const able = enginesFor(runtime_profile, profiles)
  const share = Math.max(0, ...able.map(({ vram_share = 1 }) => vram_share))
  const sizes = nodes.map(({ gpus = [] }) =>
    freeMemoryOn(
      gpus.map(({ memory_mb }) => memory_mb),
      tensor_parallel,
    ),
  )
  const largest = Math.max(...sizes)
  const limit = Math.floor(share * largest)
  if (gpu_memory_mb <= limit) return undefined
  const whose =
    tensor_parallel === 1 ? 'the largest GPU has' : `the ${tensor_parallel} largest GPUs of a node share`
  const message = `must be at most ${limit}: ${whose} ${largest} MB, of which a model may use ${Math.round(100 * share)}%`
  return { field: 'serving.gpu_memory_mb', message }
}

/** Returns the profiles with settings that serve the same kind of model as this one. */
function enginesFor(runtimeProfile: string, profiles: readonly Profile[]): Profile[] {
  const kind = profiles.find(({ profile_id }) => profile_id === runtimeProfile)?.model_kind
  return profiles.filter(
    ({ model_kind, serving_options }) => kind !== undefined && model_kind === kind && serving_options,
  )
}

/** Returns settings that contradict each other, or that no engine accepts. */
function conflictIn(
  { engine = 'auto', tensor_parallel = 1, ...settings }: Serving,
  able: readonly Profile[],
): { field: string; message: string } | undefined {
  if (tensor_parallel > 1 && engine !== 'auto')
    return {
      field: 'serving.tensor_parallel',
      message: `the engine ${engine} uses one GPU; remove tensor_parallel or set engine to auto`,
    }
  if (tensor_parallel > 1 && !able.some(isDivisible))
    return {
      field: 'serving.tensor_parallel',
      message: 'no engine of this platform divides a model among GPUs',
    }
  const unknown = Object.keys(settings).find(
    (name) => name !== 'engine_args' && !able.some((profile) => hasSetting(profile, name)),
  )
  if (unknown !== undefined)
    return {
      field: `serving.${unknown}`,
      message: 'no engine that serves this kind of model has this setting',
    }
  const { method, prompt_lookup_min: min, prompt_lookup_max: max } = settings.speculative ?? {}
  const lookup = min === undefined ? 'prompt_lookup_max' : 'prompt_lookup_min'
  if (method === 'mtp' && (min ?? max) !== undefined)
    return { field: `serving.speculative.${lookup}`, message: 'applies only to the method ngram' }
  if (min !== undefined && max !== undefined && min > max)
    return {
      field: 'serving.speculative.prompt_lookup_min',
      message: `must be at most prompt_lookup_max, ${max}`,
    }
  return undefined
}

const hasSetting = ({ serving_options = {}, vram_share }: Profile, name: string): boolean =>
  // The node itself turns this setting into the share of a GPU.
  name === 'gpu_memory_mb' ? vram_share !== undefined : Object.hasOwn(serving_options, name)

/** Returns whether a profile's engine can divide a model among several GPUs. */
const isDivisible = ({ command }: Pick<RuntimeProfile, 'command'>): boolean =>
  command.includes('{tensor_parallel}')

/** Returns a profile with the number of GPUs that a serving sets. */
export const profileFor = <P extends Pick<RuntimeProfile, 'command' | 'tensor_parallel'>>(
  profile: P,
  { tensor_parallel }: Serving = {},
): P => (tensor_parallel !== undefined && isDivisible(profile) ? { ...profile, tensor_parallel } : profile)

/** Engines store integers in 32 bits. */
const MAX_INTEGER = 2_147_483_647

/** Returns what a value must be if it isn't; undefined if it is. */
function expectation(rule: Rule | undefined, value: string | number | boolean): string | undefined {
  if (rule === 'boolean') return typeof value === 'boolean' ? undefined : 'true or false'
  if (rule === 'integer' || rule === 'positive') {
    const least = rule === 'integer' ? 0 : 1
    const isWithin = Number.isInteger(value) && Number(value) >= least && Number(value) <= MAX_INTEGER
    return isWithin ? undefined : `an integer from ${least} to ${MAX_INTEGER}`
  }
  return rule?.includes(String(value)) ? undefined : `one of ${rule?.join(', ')}`
}

/**
 * Returns the command-line arguments of a profile's engine for a serving. If an argument is repeated, the engine uses
 * the last one.
 */
export function servingArguments(
  { serving_options: options = {}, engine_args: allowed = {} }: Profile,
  { engine_args = {}, ...settings }: Serving = {},
): string[] {
  const named = Object.entries(settings).flatMap(([name, value]) =>
    (Object.hasOwn(options, name) ? (options[name] ?? []) : []).map((part) =>
      part.replace('{value}', () => (typeof value === 'object' ? JSON.stringify(value) : String(value))),
    ),
  )
  const others = Object.entries(engine_args).flatMap(([name, value]) => {
    if (!Object.hasOwn(allowed, name)) return []
    if (typeof value !== 'boolean') return [`--${name}=${value}`]
    return [value ? `--${name}` : `--no-${name}`]
  })
  return [...named, ...others]
}
