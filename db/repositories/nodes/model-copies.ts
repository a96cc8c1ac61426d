import { type Kysely, sql } from 'kysely'
import type { ModelCopies } from '../../../schemas/operations.ts'
import type { Database } from '../../tables.ts'

/** A cap on the list; no realistic pool has more models on its nodes. */
const MAX_MODELS = 1_000

/** Lists the models on nodes that have reported since a given time, those with the most requests in flight first. */
export async function listModelCopies(
  db: Kysely<Database>,
  { silentSince, key }: { silentSince: Date; key: string | undefined },
): Promise<ModelCopies[]> {
  const { rows } = await sql<ModelCopies>`
    with copy as materialized (
      select m.value ->> 'model_key' as model_key, m.value ->> 'state' as state, node.id as node_id, node.name,
        coalesce((m.value ->> 'in_flight')::int, 0) as in_flight, coalesce((m.value ->> 'memory_mb')::int, 0) as memory_mb,
        coalesce((m.value ->> 'pinned')::boolean, false) as pinned, m.value ->> 'error' as error
      from node_state s join node on node.id = s.node_id, jsonb_array_elements(s.snapshot -> 'models') m
      where s.updated_at > ${silentSince} and node.status <> 'removed' and jsonb_typeof(s.snapshot -> 'models') = 'array'
    ), model as (
      select model_key, sum(in_flight)::int as in_flight, max(memory_mb) as memory_mb,
        jsonb_agg(jsonb_build_object('node_id', node_id, 'node', name, 'state', state, 'in_flight', in_flight,
          'pinned', pinned, 'error', error) order by name, node_id) as copies
      from copy where ${key ?? null}::text is null or position(lower(${key ?? null}) in lower(model_key)) > 0
      group by model_key order by 2 desc, 1 limit ${MAX_MODELS}
    )
    select model.*, coalesce((
      select max(min_warm) from endpoint e where e.model_key = model.model_key and e.deleted_at is null
    ), 0) as min_warm
    from model order by in_flight desc, model_key`.execute(db)
  return rows
}
