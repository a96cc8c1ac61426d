import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import { ApiError } from '../domain/errors.ts'
import { isUuidV7 } from '../domain/uuid.ts'

/** A digest of what a list is filtered and sorted by: a cursor fits only its own list. */
export const cursorScope = (...parts: unknown[]): string =>
  createHash('sha256').update(JSON.stringify(parts)).digest('base64url').slice(0, 11)

/** Pages run newest first by UUIDv7 id: one column, no ties, no clock precision to lose. */
export const encodeCursor = (scope: string, lastId: string): string =>
  Buffer.from(`${scope}.${lastId}`).toString('base64url')

/** The id to continue below; 422 when the cursor is malformed or belongs to another list. */
export function decodeCursor(scope: string, cursor: string): string {
  const [itsScope, id, ...rest] = Buffer.from(cursor, 'base64url').toString().split('.')
  if (itsScope === scope && id && isUuidV7(id) && rest.length === 0) return id
  throw new ApiError('validation_failed', 'cursor is not one that this list returned for this filter', {
    details: { issues: [{ loc: ['query', 'cursor'], msg: 'unknown cursor', type: 'cursor' }] },
  })
}

/**
 * Rows of one account, for lists ordered by account and id: together they leave the planner only the index that leads
 * with the account. Given plain equality it walks the primary key instead and passes over everybody else's newer rows
 * (measured: 93 ms in place of 0.04 ms for a page of 300,000 rows).
 */
export const ofAccount = (column: string, accountId: string) =>
  sql<boolean>`${sql.ref(column)} = any(array[${accountId}]::uuid[])`
