import { createHash } from 'node:crypto'

/** Returns the key under which a node schedules an account's turns; the node must not learn the account's id. */
export const turnKeyOf = (accountId: string): string =>
  createHash('sha256').update(accountId).digest('base64url').slice(0, 16)
