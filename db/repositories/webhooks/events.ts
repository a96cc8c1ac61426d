import type { Kysely } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import type { Database } from '../../tables.ts'
import type { EventTable } from '../../tables/accounts.ts'

/** A terminal status to publish. */
export interface TerminalEvent {
  accountId: string
  type: string
  resource: { id: string; object: string; status: string }
  resourceUrl: string
}

export type EventRow = Pick<EventTable, 'id' | 'account_id' | 'type' | 'resource_id' | 'payload'> & {
  created_at: Date
}

/** Builds an event whose payload is final; it contains no prompt, input, output, log or artifact. */
export function freezeEvent(event: TerminalEvent, now: Date): EventRow {
  const id = newId()
  return {
    id,
    account_id: event.accountId,
    type: event.type,
    resource_id: event.resource.id,
    payload: Buffer.from(payloadOf(id, event, now.toISOString())),
    created_at: now,
  }
}

/** The common part of events for many resources, for a statement that builds one event per row. */
export interface EventForm {
  readonly type: string
  /** The payload as a pattern for Postgres' `format`: 1 is the event's id, 2 the resource's, 3 the time. */
  readonly payload: string
}

const EVENT_ID = '<event id>'
const RESOURCE_ID = '<resource id>'
const CREATED_AT = '<created at>'

/** Builds the form of an event whose `resource` has no id yet. */
export function eventForm(event: {
  accountId: string
  type: string
  resource: { object: string; status: string }
  resourceUrl: (resourceId: string) => string
}): EventForm {
  const { accountId, type, resource } = event
  const resourceUrl = event.resourceUrl(RESOURCE_ID)
  const marked = { accountId, type, resource: { id: RESOURCE_ID, ...resource }, resourceUrl }
  const payload = payloadOf(EVENT_ID, marked, CREATED_AT)
    .replaceAll('%', '%%')
    .replaceAll(EVENT_ID, '%1$s')
    .replaceAll(RESOURCE_ID, '%2$s')
    .replaceAll(CREATED_AT, '%3$s')
  return { type, payload }
}

const payloadOf = (id: string, event: TerminalEvent, createdAt: string): string =>
  JSON.stringify({
    id,
    object: 'event',
    api_version: '1',
    type: event.type,
    created_at: createdAt,
    account_id: event.accountId,
    data: { resource: event.resource, resource_url: event.resourceUrl },
  })

/**
 * Writes events in the transaction that sets the terminal status. Safe to repeat, because a resource has one event of
 * each terminal type.
 */
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

/** Like `insertEvents`, for a caller that needs the ids of the events. */
export async function insertFrozenEvents(trx: Kysely<Database>, rows: readonly EventRow[]): Promise<void> {
  if (rows.length === 0) return
  await trx
    .insertInto('event')
    .values(rows)
    .onConflict((oc) => oc.columns(['resource_id', 'type']).doNothing())
    .execute()
}
