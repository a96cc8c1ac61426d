import { type Kysely, sql } from 'kysely'
import { isUuid } from '../../../domain/uuid.ts'
import type { Database } from '../../tables.ts'
import { disabledByOwner } from '../models/config-lifecycle.ts'
import { BASE_KEY } from './adapters.ts'
import { ENGINE } from './serving.ts'

/** Reads everything that admission needs to know about an endpoint, by its id or name. */
export const findCallableEndpoint = (db: Kysely<Database>, idOrName: string) =>
  callableEndpoints(db)
    .where(isUuid(idOrName) ? 'endpoint.id' : 'endpoint.name', '=', idOrName.toLowerCase())
    .executeTakeFirst()

/**
 * Reads the same for many endpoints, by the given ids or names, with the output schemas and expected times of cohort
 * stages.
 */
export async function findCallableEndpoints(db: Kysely<Database>, idsOrNames: readonly string[]) {
  const [ids, names] = [true, false].map((wantsId) =>
    idsOrNames.filter((one) => isUuid(one) === wantsId).map((one) => one.toLowerCase()),
  )
  const rows = await callableEndpoints(db)
    .select(['endpoint.version_id', 'endpoint.latency_ms', 'endpoint.output_schema'])
    .where(sql<boolean>`(endpoint.id = any(${ids}::uuid[]) or endpoint.name = any(${names}::text[]))`)
    .execute()
  return new Map(
    idsOrNames.flatMap((given) => {
      const row = rows.find(({ id, name }) => [id, name].includes(given.toLowerCase()))
      return row ? [[given, row] as const] : []
    }),
  )
}

function callableEndpoints(db: Kysely<Database>) {
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
      'model_version.tensor_parallel',
      'model_version.unusable',
      BASE_KEY.as('base_key'),
      ENGINE.as('engine'),
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
    .where('endpoint.deleted_at', 'is', null)
}

export type CallableEndpointRow = NonNullable<Awaited<ReturnType<typeof findCallableEndpoint>>>
