import { type Kysely, sql } from 'kysely'
import type { NodeGpus } from '../../../domain/placement/gpu-capacity.ts'
import type { NodeSnapshot } from '../../../domain/placement/node-snapshot.ts'
import type { Database } from '../../tables.ts'
import type { LoadTimeTable, ModelVersionRow } from '../../tables/models.ts'
import { BASE_KEY } from '../endpoints/adapters.ts'
import { ENGINE } from '../endpoints/serving.ts'

/** Reports older than this no longer count. */
export const LOAD_REPORT_TTL_S = 10
/** The approximate number of samples that the mean covers. */
const MEMORY = 10

/** Returns the last reports of live nodes. */
export async function readSnapshots(db: Kysely<Database>): Promise<NodeSnapshot[]> {
  const rows = await db
    .selectFrom('node_state')
    .innerJoin('node', 'node.id', 'node_state.node_id')
    .select(['node_state.snapshot', 'node.status', 'node.account_id', 'node.sharing'])
    .where('node_state.updated_at', '>', sql<Date>`now() - make_interval(secs => ${LOAD_REPORT_TTL_S})`)
    .where('node.status', '!=', 'removed')
    .execute()
  return rows.map(({ snapshot, status, account_id, sharing }) => {
    // A gateway stored this report after validating it. Decisions about the node are in its own row.
    const report = snapshot as unknown as NodeSnapshot
    return { ...report, account_id, sharing, draining: report.draining || status === 'draining' }
  })
}

/** Returns the GPUs of each node that works for this account, as it last reported them, even if it is offline now. */
export async function listGpus(db: Kysely<Database>, accountId: string): Promise<NodeGpus[]> {
  const rows = await db
    .selectFrom('node_state')
    .innerJoin('node', 'node.id', 'node_state.node_id')
    .select([
      sql<NodeGpus['gpus'] | null>`node_state.snapshot -> 'gpus'`.as('gpus'),
      sql<number | null>`(node_state.snapshot ->> 'gpus_per_model')::int`.as('gpus_per_model'),
    ])
    .where('node.status', '!=', 'removed')
    .where((eb) => eb.or([eb('node.sharing', '=', 'shared'), eb('node.account_id', '=', accountId)]))
    .execute()
  return rows.map(({ gpus, gpus_per_model }) => ({
    ...(gpus && { gpus }),
    ...(gpus_per_model !== null && { gpus_per_model }),
  }))
}

/** Returns the nodes that can no longer hand anything over: those without reports, and the one that was just lost. */
export async function lostNodes(db: Kysely<Database>, justLost: string | null): Promise<string[]> {
  const rows = await db
    .selectFrom('node')
    .leftJoin('node_state', 'node_state.node_id', 'node.id')
    .select('node.id')
    .where((eb) =>
      eb.or([
        eb('node_state.updated_at', 'is', null),
        eb('node_state.updated_at', '<', sql<Date>`now() - make_interval(secs => ${LOAD_REPORT_TTL_S})`),
      ]),
    )
    .execute()
  return [...rows.map(({ id }) => id), ...(justLost === null ? [] : [justLost])]
}

/** Returns the name of a node. */
export async function nodeName(db: Kysely<Database>, id: string): Promise<string | undefined> {
  const row = await db.selectFrom('node').select('name').where('id', '=', id).executeTakeFirst()
  return row?.name
}

/** Returns the names, by id, of the given nodes that belong to the account or work for every account. */
export async function visibleNames(
  db: Kysely<Database>,
  accountId: string,
  ids: readonly string[],
): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('node')
    .select(['id', 'name'])
    .where('id', '=', sql<string>`any(${ids}::uuid[])`)
    .where('status', '!=', 'removed')
    .where((eb) => eb.or([eb('sharing', '=', 'shared'), eb('account_id', '=', accountId)]))
    .execute()
  return new Map(rows.map(({ id, name }) => [id, name]))
}

/** Counts the live nodes that work for this account. */
export async function countWorkers(db: Kysely<Database>, accountId: string): Promise<number> {
  const { count } = await db
    .selectFrom('node_state')
    .innerJoin('node', 'node.id', 'node_state.node_id')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('node_state.updated_at', '>', sql<Date>`now() - make_interval(secs => ${LOAD_REPORT_TTL_S})`)
    .where('node.status', '=', 'active')
    .where((eb) => eb.or([eb('node.sharing', '=', 'shared'), eb('node.account_id', '=', accountId)]))
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Returns the profile and memory that a model needs. */
export function findModelNeeds(
  db: Kysely<Database>,
  modelKey: string,
): Promise<
  | (Pick<ModelVersionRow, 'runtime_profile' | 'memory_mb' | 'tensor_parallel' | 'unusable'> & {
      base_key: string | null
      engine: string | null
    })
  | undefined
> {
  return db
    .selectFrom('model_version')
    .select(['runtime_profile', 'memory_mb', 'tensor_parallel', 'unusable', BASE_KEY.as('base_key')])
    .select(ENGINE.as('engine'))
    .where('model_key', '=', modelKey)
    .executeTakeFirst()
}

export type LoadSample = Pick<LoadTimeTable, 'model_key' | 'start_state' | 'hardware' | 'mean_ms'>

/** Adds a load time to the mean. Recording a sample twice only moves the mean closer to that sample. */
export async function recordLoad(db: Kysely<Database>, sample: LoadSample): Promise<void> {
  await db
    .insertInto('load_time')
    .values({ ...sample, samples: 1 })
    .onConflict((oc) =>
      oc.columns(['model_key', 'start_state', 'hardware']).doUpdateSet({
        mean_ms: sql<number>`load_time.mean_ms + (excluded.mean_ms - load_time.mean_ms)
          / (least(load_time.samples, ${MEMORY}) + 1)`,
        samples: sql<number>`load_time.samples + 1`,
        updated_at: sql<Date>`now()`,
      }),
    )
    .execute()
}

/** Returns the mean load time from this state, across all kinds of nodes; undefined if there are no samples. */
export async function estimateLoadMs(
  db: Kysely<Database>,
  modelKey: string,
  startState: LoadSample['start_state'],
): Promise<number | undefined> {
  const { mean } = await db
    .selectFrom('load_time')
    .select((eb) => eb.fn.avg<number | null>('mean_ms').as('mean'))
    .where('model_key', '=', modelKey)
    .where('start_state', '=', startState)
    .executeTakeFirstOrThrow()
  return mean === null ? undefined : Number(mean)
}
