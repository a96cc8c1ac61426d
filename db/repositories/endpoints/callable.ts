import { type Kysely, sql } from 'kysely'
import { isUuid } from '../../../domain/uuid.ts'
import type { Database } from '../../tables.ts'
import { disabledByOwner } from '../models/config-lifecycle.ts'

/** Reads everything that admission needs of an endpoint, by its id or name. */
export function findCallableEndpoint(db: Kysely<Database>, idOrName: string) {
  return db
    .selectFrom('endpoint')
    .innerJoin('model_version', 'model_version.id', 'endpoint.version_id')
    .select([
      'endpoint.id',
      'endpoint.account_id',
      'endpoint.name',
      'endpoint.visibility',
      'endpoint.status',
      'endpoint.review_status',
      'endpoint.task_type',
      'endpoint.source',
      'endpoint.is_base_model',
      'endpoint.model_key',
      'endpoint.runtime_profile',
      'endpoint.input_schema',
      'endpoint.price_micro',
      // The key of the compiled schema; a changed schema has another digest.
      sql<string>`endpoint.id || md5(endpoint.input_schema::text)`.as('schema_key'),
      'model_version.memory_mb',
      'model_version.unusable',
      // An endpoint whose owner has disabled its config counts as disabled.
      (eb) =>
        eb
          .case()
          .when(disabledByOwner())
          .then(eb.val<'disabled'>('disabled'))
          .else(eb.ref('model_version.lifecycle_status'))
          .end()
          .as('lifecycle_status'),
    ])
    .where(isUuid(idOrName) ? 'endpoint.id' : 'endpoint.name', '=', idOrName.toLowerCase())
    .where('endpoint.deleted_at', 'is', null)
    .executeTakeFirst()
}

export type CallableEndpointRow = NonNullable<Awaited<ReturnType<typeof findCallableEndpoint>>>
