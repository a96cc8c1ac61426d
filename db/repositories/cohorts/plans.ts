import { type Kysely, sql } from 'kysely'
import type { Plan, PlanRequest } from '../../../schemas/cohorts/plan.ts'
import type { Database } from '../../tables.ts'

/** Stores a plan, which can be run until it expires. */
export async function insertPlan(
  db: Kysely<Database>,
  accountId: string,
  request: PlanRequest,
  plan: Plan,
): Promise<void> {
  await db
    .insertInto('cohort_plan')
    .values({
      id: plan.plan_id,
      account_id: accountId,
      request: JSON.stringify(request),
      plan: JSON.stringify(plan),
      feasible: plan.feasible,
      expires_at: new Date(plan.expires_at),
    })
    .execute()
}

/** Finds a plan of an account. */
export async function findPlan(
  db: Kysely<Database>,
  { id, accountId }: { id: string; accountId: string },
): Promise<{ request: PlanRequest; plan: Plan; expires_at: Date } | undefined> {
  const row = await db
    .selectFrom('cohort_plan')
    .select(['request', 'plan', 'expires_at'])
    .where('id', '=', id)
    .where('account_id', '=', accountId)
    .executeTakeFirst()
  return row && { ...(row as unknown as { request: PlanRequest; plan: Plan }), expires_at: row.expires_at }
}

/** Returns the size in bytes of the request of an account's plan; 0 if there is no such plan. */
export async function readPlanBytes(
  db: Kysely<Database>,
  { id, accountId }: { id: string; accountId: string },
): Promise<number> {
  const row = await db
    .selectFrom('cohort_plan')
    .select(sql<number>`octet_length(request::text)`.as('bytes'))
    .where('id', '=', id)
    .where('account_id', '=', accountId)
    .executeTakeFirst()
  return row?.bytes ?? 0
}

/**
 * Returns whether an account may store another plan, that is, has fewer than `most`; deletes its expired ones if
 * necessary. Plans that are stored concurrently may slightly exceed the limit.
 */
export async function canAddPlan(db: Kysely<Database>, accountId: string, most: number): Promise<boolean> {
  if ((await countPlans(db, accountId, most)) < most) return true
  await db
    .deleteFrom('cohort_plan')
    .where('account_id', '=', accountId)
    .where('expires_at', '<', sql<Date>`now()`)
    .execute()
  return (await countPlans(db, accountId, most)) < most
}

/** Counts the plans of an account, up to a limit. */
async function countPlans(db: Kysely<Database>, accountId: string, limit: number): Promise<number> {
  const { count } = await db
    .selectFrom((eb) =>
      eb
        .selectFrom('cohort_plan')
        .select('id')
        .where('account_id', '=', accountId)
        .limit(limit)
        .as('counted'),
    )
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return count
}
