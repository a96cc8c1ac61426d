import { type Kysely, type SelectQueryBuilder, sql } from 'kysely'
import type { Database } from './tables.ts'

/** The limit on large text per page. A gateway builds a page on its only thread, so all other accounts wait for it. */
export const MAX_PAGE_BYTES = 2 * 1024 * 1024

/** The rows of a page that fit into its byte limit: at least one, even if that row exceeds the limit. */
export interface CutPage<T> {
  readonly rows: readonly T[]
  /** True when further rows were left out because of their size. */
  readonly isCut: boolean
}

/**
 * Reads a page whose query selects the size of each row's large text as `bytes`. Leaves out the rows that begin beyond
 * `MAX_PAGE_BYTES`; their text never leaves the database.
 */
export async function readCutPage<DB, TB extends keyof DB, O extends { bytes: number }>(
  db: Kysely<Database>,
  page: SelectQueryBuilder<DB, TB, O>,
): Promise<CutPage<O>> {
  // A window without its own order follows the order of the page.
  const { rows } = await sql<O & { page_rows: number }>`
    select * from (
      select page.*, count(*) over () as page_rows,
        sum(page.bytes) over (rows unbounded preceding) - page.bytes as bytes_before
      from (${page}) as page
    ) as sized where bytes_before < ${MAX_PAGE_BYTES}`.execute(db)
  return { rows, isCut: rows.length < (rows[0]?.page_rows ?? 0) }
}
