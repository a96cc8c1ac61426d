import { createHash } from 'node:crypto'
import { type SelectQueryBuilder, sql } from 'kysely'
import { ApiError } from '../domain/errors.ts'
import { isStorable } from '../domain/storable-text.ts'
import { isUuidV7 } from '../domain/uuid.ts'

/** Returns a digest of a list's filters and order. A cursor is valid only for its own list. */
export const cursorScope = (...parts: unknown[]): string =>
  createHash('sha256').update(JSON.stringify(parts)).digest('base64url').slice(0, 11)

/** The row after which a page begins, with its name if the list is sorted by name. */
export interface CursorPosition {
  id: string
  name?: string
}

/**
 * Encodes a cursor. Lists are ordered by UUIDv7 id, which has no ties and loses no clock precision, or by name and id.
 */
export function encodeCursor(scope: string, { id, name }: CursorPosition): string {
  const parts = [scope, id, ...(name === undefined ? [] : [Buffer.from(name).toString('base64url')])]
  return Buffer.from(parts.join('.')).toString('base64url')
}

/** Returns the row to continue after; throws a 422 when the cursor is malformed or belongs to another list. */
export function decodeCursor(scope: string, cursor: string, { byName = false } = {}): CursorPosition {
  const [itsScope, id, name, ...rest] = Buffer.from(cursor, 'base64url').toString().split('.')
  const isWhole = rest.length === 0 && (name !== undefined) === byName
  const text = name === undefined ? undefined : Buffer.from(name, 'base64url').toString()
  // A client can forge a cursor, so reject names that the database cannot store: no row has one.
  const isName = text === undefined || isStorable(text)
  if (itsScope === scope && id && isUuidV7(id) && isWhole && isName)
    return { id, ...(text !== undefined && { name: text }) }
  throw new ApiError('validation_failed', 'cursor was not returned by this list with this filter', {
    details: { issues: [{ loc: ['query', 'cursor'], msg: 'unknown cursor', type: 'cursor' }] },
  })
}

/**
 * Selects the rows of one account, for lists ordered by account and id. Together, this condition and that order force
 * the planner to use the index that begins with the account. With plain equality, the planner scans the primary key and
 * skips the newer rows of all other accounts: 93 ms instead of 0.04 ms for a page of a table with 300,000 rows.
 */
export const ofAccount = (column: string, accountId: string) =>
  sql<boolean>`${sql.ref(column)} = any(array[${accountId}]::uuid[])`

/** A page of a list in the requested order. */
export interface SortedPage {
  limit: number
  sort: 'created_at' | 'name'
  order: 'asc' | 'desc'
  after: CursorPosition | undefined
}

interface PagedTable {
  table: string
  accountId: string
  /** The column with the names; needs an index by account, name and id. */
  name?: string
}

/** Selects a page of one account's rows, in the requested order. */
export function sortedPage<DB, TB extends keyof DB, O>(
  query: SelectQueryBuilder<DB, TB, O>,
  { table, accountId, name }: PagedTable,
  { limit, sort, order, after }: SortedPage,
): SelectQueryBuilder<DB, TB, O> {
  const id = sql.ref(`${table}.id`)
  const account = sql.ref(`${table}.account_id`)
  const beyond = sql.raw(order === 'asc' ? '>' : '<')
  if (sort === 'name' && name !== undefined) {
    const key = sql.ref(`${table}.${name}`)
    return query
      .where(sql<boolean>`${account} = ${accountId}::uuid`)
      .$if(after !== undefined, (qb) =>
        qb.where(sql<boolean>`(${key}, ${id}) ${beyond} (${after?.name}, ${after?.id}::uuid)`),
      )
      .orderBy(key, order)
      .orderBy(id, order)
      .limit(limit)
  }
  return (
    query
      .where(ofAccount(`${table}.account_id`, accountId))
      .$if(after !== undefined, (qb) => qb.where(sql<boolean>`${id} ${beyond} ${after?.id}::uuid`))
      // The index has ids in descending order; the planner reads it backwards for the other direction.
      .orderBy(account, order === 'desc' ? 'asc' : 'desc')
      .orderBy(id, order)
      .limit(limit)
  )
}
