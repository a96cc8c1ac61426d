import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import { ApiError } from '../domain/errors.ts'
import { isUuidV7 } from '../domain/uuid.ts'

/** Returns a digest of a list's filters and order. A cursor is valid only for its own list. */
export const cursorScope = (...parts: unknown[]): string =>
  createHash('sha256').update(JSON.stringify(parts)).digest('base64url').slice(0, 11)

/** Pages run newest first by UUIDv7 id: one column, no ties, no clock precision to lose. */
export const encodeCursor = (scope: string, lastId: string): string =>
  Buffer.from(`${scope}.${lastId}`).toString('base64url')

/** Returns the id to continue below; throws a 422 when the cursor is malformed or belongs to another list. */
export function decodeCursor(scope: string, cursor: string): string {
  const [itsScope, id, ...rest] = Buffer.from(cursor, 'base64url').toString().split('.')
  if (itsScope === scope && id && isUuidV7(id) && rest.length === 0) return id
  throw new ApiError('validation_failed', 'cursor is not one that this list returned for this filter', {
    details: { issues: [{ loc: ['query', 'cursor'], msg: 'unknown cursor', type: 'cursor' }] },
  })
}

/**
 * Selects the rows of one account, for lists ordered by account and id. This form and that order together let the
 * planner use only the index that begins with the account. With plain equality it scans the primary key and skips the
 * newer rows of all other accounts, which takes 93 ms instead of 0.04 ms for a page with 300,000 rows in the table.
 */
export const ofAccount = (column: string, accountId: string) =>
  sql<boolean>`${sql.ref(column)} = any(array[${accountId}]::uuid[])`
