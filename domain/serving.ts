import type { RuntimeProfile } from '../schemas/nodes/runtime-profile.ts'
import type { Serving } from '../schemas/nodes/serving.ts'

type Rule = NonNullable<RuntimeProfile['engine_args']>[string]
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

/** Returns what a value must be if it isn't; undefined if it is. */
function expectation(rule: Rule | undefined, value: string | number | boolean): string | undefined {
  if (rule === 'boolean') return typeof value === 'boolean' ? undefined : 'true or false'
  if (rule === 'integer')
    return Number.isSafeInteger(value) && Number(value) >= 0 ? undefined : 'an integer of at least 0'
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
      part.replace('{value}', String(value)),
    ),
  )
  const others = Object.entries(engine_args).flatMap(([name, value]) => {
    if (!Object.hasOwn(allowed, name)) return []
    if (typeof value !== 'boolean') return [`--${name}=${value}`]
    return [value ? `--${name}` : `--no-${name}`]
  })
  return [...named, ...others]
}
