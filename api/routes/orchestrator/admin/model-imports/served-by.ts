import { invalid } from '../../../../../domain/errors.ts'
import type { Catalog } from '../../../../../platform/catalog.ts'
import type { RuntimeProfile } from '../../../../../schemas/nodes/runtime-profile.ts'

/** Returns the runtime profile that an import names; throws unless it exists and serves the task type. */
export function servedBy(
  catalog: Catalog,
  { task_type, runtime_profile }: { task_type: string; runtime_profile: string },
): RuntimeProfile {
  const profile = catalog.profile(runtime_profile)
  if (!profile) {
    const known = catalog.profiles.map(({ profile_id }) => profile_id).join(', ')
    throw invalid(['body', 'runtime_profile'], `there is no such runtime profile; known: ${known}`, 'enum')
  }
  if (profile.task_types.includes(task_type)) return profile
  const known = new Set(catalog.profiles.flatMap(({ task_types }) => task_types))
  const problem = known.has(task_type)
    ? `${profile.profile_id} serves ${profile.task_types.join(', ')}`
    : `there is no such task type; known: ${[...known].join(', ')}`
  throw invalid(['body', 'task_type'], problem, 'enum')
}
