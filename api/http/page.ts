import { cursorScope, decodeCursor, encodeCursor } from '../../db/keyset.ts'

interface PageOptions {
  limit?: number
  cursor?: string
}

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
export async function readPage<T extends { id: string }>(
  { limit = 20, cursor }: PageOptions,
  scope: readonly unknown[],
  read: (request: PageRequest) => Promise<readonly T[]>,
): Promise<Page<T>> {
  const digest = cursorScope(...scope)
  const before = cursor === undefined ? undefined : decodeCursor(digest, cursor)
  const rows = await read({ limit: limit + 1, before })

  const items = rows.slice(0, limit)
  const last = items.at(-1)
  return { items, next_cursor: rows.length > limit && last ? encodeCursor(digest, last.id) : null }
}
