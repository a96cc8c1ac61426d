import { type Kysely, sql, type Transaction } from 'kysely'
import { changesBetween } from '../../../domain/changes.ts'
import type { Database } from '../../tables.ts'
import type { AuditLogRow, KillSwitchRow } from '../../tables/accounts.ts'
import { listChanges, recordChange } from './audit-log.ts'
import { bumpCache } from './cache-versions.ts'

const ROW = 1
/** The subject of kill switch orders in the audit log. */
const SUBJECT = 'kill_switch'
/** The action of an order that activates the kill switch. */
export const ACTIVATED = 'activateKillSwitch'

/** Reads the kill switch; its row is authoritative. */
export function readKillSwitch(db: Kysely<Database>): Promise<KillSwitchRow> {
  return db.selectFrom('kill_switch').selectAll().where('id', '=', ROW).executeTakeFirstOrThrow()
}

/**
 * Reads the switch and locks it against changes until the transaction ends; waits for a change in progress. It must be
 * the last read of a transaction, so that a change never waits for long.
 */
export function shareKillSwitch(
  trx: Transaction<Database>,
): Promise<Pick<KillSwitchRow, 'active' | 'reason'>> {
  return trx
    .selectFrom('kill_switch')
    .select(['active', 'reason'])
    .where('id', '=', ROW)
    .forShare()
    .executeTakeFirstOrThrow()
}

export interface KillSwitchChange {
  active: boolean
  reason: string | null
  actor: string | null
}

/**
 * Activates or deactivates the switch and notifies every gateway on commit. An order that is already in effect changes
 * nothing, so it may be repeated.
 */
export function writeKillSwitch(
  db: Kysely<Database>,
  change: KillSwitchChange,
  now: Date,
): Promise<KillSwitchRow> {
  return db.transaction().execute(async (trx) => {
    const current = await trx
      .selectFrom('kill_switch')
      .selectAll()
      .where('id', '=', ROW)
      .forUpdate()
      .executeTakeFirstOrThrow()
    const { active, reason, actor } = change
    if (current.active === active && current.reason === reason && current.actor === actor) return current

    const written = await trx
      .updateTable('kill_switch')
      .set({ active, reason, actor, changed_at: now, version: sql<number>`version + 1` })
      .where('id', '=', ROW)
      .returningAll()
      .executeTakeFirstOrThrow()
    await bumpCache(trx, 'kill_switch')
    await recordChange(trx, {
      actor: actor ?? 'workflow',
      action: active ? ACTIVATED : 'deactivateKillSwitch',
      subject: { kind: 'kill_switch', id: SUBJECT },
      accountId: null,
      changes: {
        ...changesBetween({ active: current.active, reason: current.reason }, { active, reason }),
        // The history shows the reason for each order, even if it is the same as the previous one.
        ...(current.active !== active && { reason: { from: current.reason, to: reason } }),
      },
    })
    return written
  })
}

/** Returns a page of the kill switch orders, newest first. */
export const listOrders = (
  db: Kysely<Database>,
  { before, limit }: { before?: string | undefined; limit: number },
): Promise<AuditLogRow[]> =>
  listChanges(db, {
    subjectId: SUBJECT,
    accountId: undefined,
    action: undefined,
    actor: undefined,
    since: undefined,
    until: undefined,
    before,
    limit,
  })

/** Reads the switch, and the version that this gateway has acknowledged; `null` while the gateway has no row. */
export async function readKillSwitchFor(
  db: Kysely<Database>,
  gatewayId: string,
): Promise<KillSwitchRow & { acknowledged: number | null }> {
  return db
    .selectFrom('kill_switch')
    .leftJoin('gateway', (join) => join.on('gateway.id', '=', gatewayId))
    .selectAll('kill_switch')
    .select('gateway.kill_switch_version as acknowledged')
    .where('kill_switch.id', '=', ROW)
    .executeTakeFirstOrThrow()
}

/** Records that a gateway applies this version. */
export async function acknowledgeKillSwitch(
  db: Kysely<Database>,
  gatewayId: string,
  version: number,
): Promise<void> {
  await db
    .updateTable('gateway')
    .set({ kill_switch_version: version })
    .where('id', '=', gatewayId)
    .where('kill_switch_version', '<', version)
    .execute()
}

/** Counts the live gateways, and those that apply at least this version. */
export async function countAcknowledged(
  db: Kysely<Database>,
  version: number,
): Promise<{ live: number; acknowledged: number }> {
  return db
    .selectFrom('gateway')
    .select(({ fn }) => [
      fn.countAll<number>().as('live'),
      fn.countAll<number>().filterWhere('kill_switch_version', '>=', version).as('acknowledged'),
    ])
    .where('lease_expires_at', '>', sql<Date>`now()`)
    .executeTakeFirstOrThrow()
}
