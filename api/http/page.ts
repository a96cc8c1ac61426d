import { cursorScope, decodeCursor, encodeCursor, type SortedPage } from '../../db/keyset.ts'
import type { CutPage } from '../../db/page-bytes.ts'
import type { PageQuery, SortedPageQuery } from '../../schemas/common.ts'

export interface PageRequest {
  /** One more than the page, which shows whether there is a next page. */
  limit: number
  /** Only rows with a smaller id. */
  before: string | undefined
}

export interface Page<T> {
  items: T[]
  next_cursor: string | null
}

/**
 * Returns one page of a list that runs newest first by id. `scope` is everything the list is filtered by (account,
 * operation, filters); a cursor of another list is refused.
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
 * Returns one page of a list that runs in the order that is asked for; by name, where its rows have one. A page that is
 * cut for its bytes has fewer items than `limit`, and its cursor continues after the last of them.
 */
export async function readSortedPage<T extends { id: string }>(
  { sort = 'created_at', order = 'desc', limit = 20, cursor }: SortedPageQuery,
  scope: readonly unknown[],
  read: (request: SortedPage) => Promise<readonly T[] | CutPage<T>>,
  nameOf?: (row: T) => string,
): Promise<Page<T>> {
  // Cursors of a version without orders go on to fit.
  const isUsual = sort === 'created_at' && order === 'desc'
  const digest = cursorScope(...scope, ...(isUsual ? [] : [sort, order]))
  const byName = sort === 'name'
  const after = cursor === undefined ? undefined : decodeCursor(digest, cursor, { byName })
  const found = await read({ sort, order, limit: limit + 1, after })
  const { rows, isCut } = 'isCut' in found ? found : { rows: found, isCut: false }

  const items = rows.slice(0, limit)
  const last = isCut || rows.length > limit ? items.at(-1) : undefined
  const place = last && { id: last.id, ...(byName && nameOf && { name: nameOf(last) }) }
  return { items, next_cursor: place ? encodeCursor(digest, place) : null }
}
