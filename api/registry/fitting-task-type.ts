import type { Kysely } from 'kysely'
import type { Database } from '../../db/tables.ts'
import type { EndpointRow, ModelVersionRow } from '../../db/tables/models.ts'
import { CHAT_TASK_TYPES, isChatCapable } from '../../domain/chat/chat.ts'
import { invalid } from '../../domain/errors.ts'
import { oneOf } from '../../domain/format-faults.ts'
import type { Catalog } from '../../platform/catalog.ts'
import { taskTypeOf } from './task-type-of.ts'

type Version = Pick<ModelVersionRow, 'id' | 'model_config_id' | 'runtime_profile'>

/**
 * Returns the task types with which a version can be served, the default first; empty if none is known. The task type
 * determines an endpoint's routes, its lists and its place in the manifest, so a wrong one would make it useless.
 */
export async function fittingTaskTypes(
  db: Kysely<Database>,
  catalog: Pick<Catalog, 'model' | 'profile'>,
  version: Version,
  source: EndpointRow['source'],
): Promise<readonly string[]> {
  // Earlier releases accepted any text for the endpoint of a trained version, so we can't rely on it.
  const native =
    source === 'trained'
      ? catalog.model(version.model_config_id)?.config.task_type
      : await taskTypeOf(db, catalog, version)
  if (native === undefined) return catalog.profile(version.runtime_profile)?.task_types ?? []
  return isChatCapable(native) ? [native, ...CHAT_TASK_TYPES.filter((type) => type !== native)] : [native]
}

/** Throws a 422 that lists the valid task types if a task type doesn't fit the version. */
export function assertFits(taskType: string | undefined, fitting: readonly string[]): void {
  if (taskType === undefined || fitting.length === 0 || fitting.includes(taskType)) return
  throw invalid(['body', 'task_type'], `${oneOf(fitting)} for this model`, 'task_type')
}
