import type { Static } from 'typebox'
import type { AccountLedger, AccountUsage, LedgerQuery, Me, UsageQuery } from '../../schemas/account.ts'
import type { EventList, EventQuery } from '../../schemas/event.ts'
import { accountStream } from '../account-stream.ts'
import type { Operations } from '../operations.ts'
import type { Transport } from '../transport.ts'

/** The account itself, and what it has paid. */
export function account(on: Operations, transport: Transport) {
  return {
    /** Returns the account of the key, and what the key and the account may do. */
    me: on.call<[], Me>({ id: 'getMe', method: 'GET', path: '/me' }),
    ledger: on.list<[], Static<typeof LedgerQuery>, AccountLedger, 'entries'>({
      id: 'getLedger',
      method: 'GET',
      path: '/ledger',
      items: 'entries',
    }),
    /** Lists what has ended: runs, merges, invocations, and tasks that failed. */
    events: on.list<[], Static<typeof EventQuery>, Static<typeof EventList>, 'events'>({
      id: 'listEvents',
      method: 'GET',
      path: '/events',
      items: 'events',
    }),
    /** Yields what ends for the account from now on, or behind an event, as it does. */
    followEvents: accountStream(transport),
    usage: on.query<[], Static<typeof UsageQuery>, AccountUsage>({
      id: 'getUsage',
      method: 'GET',
      path: '/usage',
    }),
  }
}
