import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'

const leaseEnd = (leaseS: number) => sql<Date>`now() + make_interval(secs => ${leaseS})`

/** Registers a gateway, or renews its lease; its open rows belong to it while the lease lasts. Returns whether its row is new. */
export async function takeGatewayLease(
  db: Kysely<Database>,
  { id, baseUrl, leaseS }: { id: string; baseUrl: string; leaseS: number },
): Promise<boolean> {
  const { is_new } = await db
    .insertInto('gateway')
    .values({ id, base_url: baseUrl, lease_expires_at: leaseEnd(leaseS) })
    .onConflict((oc) =>
      oc.column('id').doUpdateSet({ base_url: baseUrl, lease_expires_at: leaseEnd(leaseS) }),
    )
    // An updated row has this transaction's id as xmax.
    .returning(sql<boolean>`xmax = 0`.as('is_new'))
    .executeTakeFirstOrThrow()
  return is_new
}

/** Ends a lease at once, so that the reaper handles the gateway's open rows without waiting. */
export async function endGatewayLease(db: Kysely<Database>, id: string): Promise<void> {
  await db
    .updateTable('gateway')
    .set({ lease_expires_at: sql<Date>`now()` })
    .where('id', '=', id)
    .execute()
}
