import type { RuntimeProfile } from '../schemas/nodes/runtime-profile.ts'
import type { Serving } from '../schemas/nodes/serving.ts'

type Profile = Pick<RuntimeProfile, 'profile_id' | 'model_kind' | 'serving_options' | 'engine_args'>

/** Returns the field of a serving that no engine of the version's kind accepts, and why; undefined if all are accepted. */
export function servingProblem(
  { engine_args = {} }: Serving,
  { runtime_profile }: { runtime_profile: string },
  profiles: readonly Profile[],
): { field: string; message: string } | undefined {
  const kind = profiles.find(({ profile_id }) => profile_id === runtime_profile)?.model_kind
  const able = profiles.filter(
    ({ model_kind, serving_options }) => kind !== undefined && model_kind === kind && serving_options,
  )
  if (able.length === 0)
    return { field: 'serving', message: 'only language models in safetensors have these settings' }
  const allowed = new Set(able.flatMap((profile) => profile.engine_args ?? []))
  const refused = Object.keys(engine_args).find((name) => !allowed.has(name))
  if (refused === undefined) return undefined
  const known = [...allowed].toSorted().join(', ')
  return {
    field: `serving.engine_args.${refused}`,
    message: `this platform does not allow this argument; allowed: ${known || 'none'}`,
  }
}

/**
 * Returns the command-line arguments of a profile's engine for a serving. If an argument is repeated, the engine uses
 * the last one.
 */
export function servingArguments(
  { serving_options: options = {}, engine_args: allowed = [] }: Profile,
  { engine_args = {}, ...settings }: Serving = {},
): string[] {
  const named = Object.entries(settings).flatMap(([name, value]) =>
    (options[name] ?? []).map((part) => part.replace('{value}', String(value))),
  )
  const others = Object.entries(engine_args).flatMap(([name, value]) => {
    if (!allowed.includes(name)) return []
    if (typeof value !== 'boolean') return [`--${name}=${value}`]
    return [value ? `--${name}` : `--no-${name}`]
  })
  return [...named, ...others]
}
