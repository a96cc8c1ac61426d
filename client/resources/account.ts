import type { Static } from 'typebox'
import type { AccountLedger, AccountUsage, LedgerQuery, Me, UsageQuery } from '../../schemas/account.ts'
import type { EventList, EventQuery } from '../../schemas/event.ts'
import { accountStream } from '../account-stream.ts'
import type { Operations } from '../operations.ts'
import type { Transport } from '../transport.ts'

/** The account itself and its spending. */
export function account(on: Operations, transport: Transport) {
  return {
    /** Returns the key's account and the permissions of both. */
    me: on.call<[], Me>({ id: 'getMe', method: 'GET', path: '/me' }),
    ledger: on.list<[], Static<typeof LedgerQuery>, AccountLedger, 'entries'>({
      id: 'getLedger',
      method: 'GET',
      path: '/ledger',
      items: 'entries',
    }),
    /** Lists events: finished runs, merges and invocations, and failed tasks. */
    events: on.list<[], Static<typeof EventQuery>, Static<typeof EventList>, 'events'>({
      id: 'listEvents',
      method: 'GET',
      path: '/events',
      items: 'events',
    }),
    /** Yields the account's events as they happen, from now on or after a given event. */
    followEvents: accountStream(transport),
    usage: on.query<[], Static<typeof UsageQuery>, AccountUsage>({
      id: 'getUsage',
      method: 'GET',
      path: '/usage',
    }),
  }
}
