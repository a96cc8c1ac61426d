import { cursorScope, decodeCursor, encodeCursor, type SortedPage } from '../../db/keyset.ts'
import type { CutPage } from '../../db/page-bytes.ts'
import type { PageQuery, SortedPageQuery } from '../../schemas/common.ts'

export interface PageRequest {
  /** The page size plus one; the extra row shows whether there is a next page. */
  limit: number
  /** Only rows with a smaller id. */
  before: string | undefined
}

export interface Page<T> {
  items: T[]
  next_cursor: string | null
}

/**
 * Returns one page of a list, newest first by id. `scope` is everything that the list is filtered by (account,
 * operation, filters); a cursor from another list is rejected.
 */
export const readPage = <T extends { id: string }>(
  query: PageQuery,
  scope: readonly unknown[],
  read: (request: PageRequest) => Promise<readonly T[] | CutPage<T>>,
): Promise<Page<T>> =>
  readSortedPage({ ...query, sort: 'created_at', order: 'desc' }, scope, ({ limit, after }) =>
    read({ limit, before: after?.id }),
  )

/**
 * Returns one page of a list in the requested order, which may be by name if its rows have one. A page cut at its byte
 * limit has fewer items than `limit`, and its cursor continues after the last one.
 */
export async function readSortedPage<T extends { id: string }>(
  { sort = 'created_at', order = 'desc', limit = 20, cursor }: SortedPageQuery,
  scope: readonly unknown[],
  read: (request: SortedPage) => Promise<readonly T[] | CutPage<T>>,
  nameOf?: (row: T) => string,
): Promise<Page<T>> {
  // Cursors from versions without sort orders stay valid.
  const isUsual = sort === 'created_at' && order === 'desc'
  const digest = cursorScope(...scope, ...(isUsual ? [] : [sort, order]))
  const byName = sort === 'name'
  const after = cursor === undefined ? undefined : decodeCursor(digest, cursor, { byName })
  const found = await read({ sort, order, limit: limit + 1, after })
  const { rows, isCut } = 'isCut' in found ? found : { rows: found, isCut: false }

  const items = rows.slice(0, limit)
  const last = isCut || rows.length > limit ? items.at(-1) : undefined
  const position = last && { id: last.id, ...(byName && nameOf && { name: nameOf(last) }) }
  return { items, next_cursor: position ? encodeCursor(digest, position) : null }
}
