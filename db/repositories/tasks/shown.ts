import { type Kysely, sql } from 'kysely'
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

/** Finds a task of an account, and the bytes of its result; the result itself is left out beyond `maxResultBytes`. */
export function findShownTask(
  db: Kysely<Database>,
  { id, accountId }: { id: string; accountId: string },
  maxResultBytes: number,
): Promise<MeasuredTask | undefined> {
  return db
    .selectFrom('task')
    .select(SHOWN)
    .select([
      sql<number>`coalesce(octet_length(result), 0)`.as('result_bytes'),
      sql<Buffer | null>`case when octet_length(result) <= ${maxResultBytes} then result end`.as('result'),
    ])
    .where('id', '=', id)
    .where('account_id', '=', accountId)
    .executeTakeFirst()
}

/** Returns the result of a task. */
export async function findResult(db: Kysely<Database>, id: string): Promise<Buffer | null> {
  const row = await db.selectFrom('task').select('result').where('id', '=', id).executeTakeFirst()
  return row?.result ?? null
}
