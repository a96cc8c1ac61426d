import { type Kysely, type SelectQueryBuilder, sql } from 'kysely'
import type { Database } from './tables.ts'

/** The bytes of large texts in one page. A gateway builds it on its only thread, so every other account waits for it. */
export const MAX_PAGE_BYTES = 2 * 1024 * 1024

/** The rows of a page that its bytes allow: at least one, even if that has more. */
export interface CutPage<T> {
  readonly rows: readonly T[]
  /** True when further rows were left out for their bytes. */
  readonly isCut: boolean
}

/**
 * Reads a page, whose query selects the bytes of each row's large texts as `bytes`, and leaves out the rows that begin
 * beyond `MAX_PAGE_BYTES`. Their texts never leave the database.
 */
export async function readCutPage<DB, TB extends keyof DB, O extends { bytes: number }>(
  db: Kysely<Database>,
  page: SelectQueryBuilder<DB, TB, O>,
): Promise<CutPage<O>> {
  // A window without an order runs in the order of the page.
  const { rows } = await sql<O & { page_rows: number }>`
    select * from (
      select page.*, count(*) over () as page_rows,
        sum(page.bytes) over (rows unbounded preceding) - page.bytes as bytes_before
      from (${page}) as page
    ) as sized where bytes_before < ${MAX_PAGE_BYTES}`.execute(db)
  return { rows, isCut: rows.length < (rows[0]?.page_rows ?? 0) }
}
