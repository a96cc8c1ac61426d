import type { Kysely } from 'kysely'
import * as nodeModelRepository from '../../db/repositories/nodes/models.ts'
import type { Database } from '../../db/tables.ts'
import type { ModelVersionRow } from '../../db/tables/models.ts'
import type { Catalog } from '../../platform/catalog.ts'

/** Returns a version's task type: its config's, or the one that it was imported with; `undefined` if unknown. */
export async function taskTypeOf(
  db: Kysely<Database>,
  catalog: Pick<Catalog, 'model'>,
  { id, model_config_id }: Pick<ModelVersionRow, 'id' | 'model_config_id'>,
): Promise<string | undefined> {
  return catalog.model(model_config_id)?.config.task_type ?? (await nodeModelRepository.findTaskType(db, id))
}
