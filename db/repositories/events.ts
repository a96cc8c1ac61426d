import type { Kysely } from 'kysely'
import { newId } from '../../domain/ids.ts'
import type { Database } from '../tables.ts'
import type { EventTable } from '../tables/accounts.ts'

/** A terminal state to announce (contract 6.1). */
export interface TerminalEvent {
  accountId: string
  type: string
  resource: { id: string; object: string; status: string }
  resourceUrl: string
}

export type EventRow = Pick<EventTable, 'id' | 'account_id' | 'type' | 'resource_id' | 'payload'> & {
  created_at: Date
}

/** Freezes an event: its payload holds no prompt, input, output, log or artifact (contract 2.14). */
export function freezeEvent(event: TerminalEvent, now: Date): EventRow {
  const id = newId()
  const payload = {
    id,
    object: 'event',
    api_version: '1',
    type: event.type,
    created_at: now.toISOString(),
    account_id: event.accountId,
    data: { resource: event.resource, resource_url: event.resourceUrl },
  }
  return {
    id,
    account_id: event.accountId,
    type: event.type,
    resource_id: event.resource.id,
    payload: Buffer.from(JSON.stringify(payload)),
    created_at: now,
  }
}

/** Writes events in the transaction of the terminal state. Safe to repeat: a resource reaches each terminal type once. */
export async function insertEvents(
  trx: Kysely<Database>,
  events: readonly TerminalEvent[],
  now: Date,
): Promise<void> {
  await insertFrozenEvents(
    trx,
    events.map((event) => freezeEvent(event, now)),
  )
}

/** `insertEvents` for a caller that needs the events' ids. */
export async function insertFrozenEvents(trx: Kysely<Database>, rows: readonly EventRow[]): Promise<void> {
  if (rows.length === 0) return
  await trx
    .insertInto('event')
    .values(rows)
    .onConflict((oc) => oc.columns(['resource_id', 'type']).doNothing())
    .execute()
}
