import { CompiledQuery, type Kysely } from 'kysely'
import type { Database } from '../../tables.ts'
import type { TaskRow } from '../../tables/inference.ts'

const SHOWN = [
  'id',
  'account_id',
  'endpoint_id',
  'surface',
  'status',
  'status_detail',
  'model_key',
  'model_state',
  'outputs',
  'error',
  'node_id',
  'inference_time_ms',
  'created_at',
  'completed_at',
] as const satisfies (keyof TaskRow)[]

/** The columns of a task that callers see. */
export type ShownTask = Pick<TaskRow, (typeof SHOWN)[number] | 'result'>

/** A task and the bytes of its result, which may have been left out. */
export type MeasuredTask = ShownTask & { result_bytes: number }

/** Clients poll tasks, so the statement is built once. */
const FIND_SHOWN = `select ${SHOWN.join(', ')}, coalesce(octet_length(result), 0) as result_bytes,
    case when octet_length(result) <= $3 then result end as result
  from task where id = any($1::uuid[]) and account_id = $2`

/** Finds tasks of an account, by id, and the sizes of their results; omits results larger than `maxResultBytes`. */
export async function findShownTasks(
  db: Kysely<Database>,
  { ids, accountId }: { ids: readonly string[]; accountId: string },
  maxResultBytes: number,
): Promise<Map<string, MeasuredTask>> {
  const found = CompiledQuery.raw(FIND_SHOWN, [ids, accountId, maxResultBytes])
  const { rows } = await db.executeQuery<MeasuredTask>(found)
  return new Map(rows.map((row) => [row.id, row]))
}

/** Returns the result of a task. */
export async function findResult(db: Kysely<Database>, id: string): Promise<Buffer | null> {
  const row = await db.selectFrom('task').select('result').where('id', '=', id).executeTakeFirst()
  return row?.result ?? null
}
