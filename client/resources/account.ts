import type { Static } from 'typebox'
import type { AccountLedger, LedgerQuery, Me } from '../../schemas/account.ts'
import type { Operations } from '../operations.ts'

/** The account itself, and what it has paid. */
export function account(on: Operations) {
  return {
    /** Returns the account of the key, and what the key and the account may do. */
    me: on.call<[], Me>({ id: 'getMe', method: 'GET', path: '/me' }),
    ledger: on.list<[], Static<typeof LedgerQuery>, AccountLedger, 'entries'>({
      id: 'getLedger',
      method: 'GET',
      path: '/ledger',
      items: 'entries',
    }),
  }
}
