import { createHash } from 'node:crypto'

/** Returns the key of an account's turns on a node, which must not learn the account itself. */
export const turnOf = (accountId: string): string =>
  createHash('sha256').update(accountId).digest('base64url').slice(0, 16)
