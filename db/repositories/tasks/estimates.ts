import { type Kysely, sql } from 'kysely'
import type { MeanDuration, ModelFacts } from '../../../domain/estimates.ts'
import type { Database } from '../../tables.ts'

export async function readModelFacts(
  db: Kysely<Database>,
  modelKeys: readonly string[],
): Promise<ModelFacts[]> {
  if (modelKeys.length === 0) return []
  const mean = (state: 'cold' | 'cached') =>
    sql<number | null>`avg(load_time.mean_ms) filter (where load_time.start_state = ${state})`.as(
      `${state}_ms`,
    )
  return db
    .selectFrom('model_version')
    .leftJoin('load_time', 'load_time.model_key', 'model_version.model_key')
    .select(['model_version.model_key', 'model_version.runtime_profile', 'model_version.memory_mb'])
    .select([mean('cold'), mean('cached')])
    .where('model_version.model_key', 'in', modelKeys)
    .groupBy(['model_version.model_key', 'model_version.runtime_profile', 'model_version.memory_mb'])
    .execute() as Promise<ModelFacts[]>
}

/** Reads all samples by runtime profile and size class; each class spans a factor of four. */
export async function readMeasured(db: Kysely<Database>): Promise<MeanDuration[]> {
  const { rows } = await sql<MeanDuration>`
    select runtime_profile, what, avg(memory_mb)::float8 as memory_mb, avg(ms)::float8 as ms
    from (
      select v.runtime_profile, l.start_state as what, v.memory_mb, l.mean_ms as ms
      from load_time l join model_version v using (model_key)
      union all
      select v.runtime_profile, 'inference', v.memory_mb, e.latency_ms
      from endpoint e join model_version v on v.id = e.version_id
      where e.latency_ms is not null and e.deleted_at is null
    ) as sample
    group by runtime_profile, what, floor(log(4, greatest(memory_mb, 1)))`.execute(db)
  return rows
}
