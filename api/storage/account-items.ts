import type { Transaction } from 'kysely'
import * as accountItemRepository from '../../db/repositories/platform/account-items.ts'
import type { ItemKind } from '../../db/repositories/platform/account-items.ts'
import type { Database } from '../../db/tables.ts'
import { ApiError } from '../../domain/errors.ts'
import type { Config } from '../../platform/config.ts'

const MB = 1e6

/**
 * Throws a `conflict` if the account has too many items of a kind, so one account can't fill the database's disk. The
 * caller has already written the new row in this transaction. Concurrent requests don't see each other's rows, so
 * together they may exceed the limit slightly.
 */
export async function assertItemLimit(
  trx: Transaction<Database>,
  {
    HEARTH_ACCOUNT_ITEMS: limit,
    HEARTH_ACCOUNT_LISTINGS_MB: listingsMb,
  }: Pick<Config, 'HEARTH_ACCOUNT_ITEMS' | 'HEARTH_ACCOUNT_LISTINGS_MB'>,
  { accountId, kind }: { accountId: string; kind: ItemKind },
): Promise<void> {
  const { count, bytes } = await accountItemRepository.countItems(trx, { accountId, kind, most: limit + 1 })
  if (count > limit) {
    throw new ApiError(
      'conflict',
      `an account has at most ${limit} ${kind}; ${kind === 'API keys' ? 'revoke' : 'delete'} one first, or ask an operator to raise HEARTH_ACCOUNT_ITEMS`,
      { details: { limit } },
    )
  }
  assertListings(bytes, listingsMb)
}

/**
 * Throws a `conflict` if the descriptions, schemas and examples of the account's endpoints are too large in total.
 * Changing an endpoint doesn't add one, so it is allowed even if the account has too many.
 */
export async function assertListingLimit(
  trx: Transaction<Database>,
  { HEARTH_ACCOUNT_LISTINGS_MB: listingsMb }: Pick<Config, 'HEARTH_ACCOUNT_LISTINGS_MB'>,
  accountId: string,
): Promise<void> {
  const all = { accountId, kind: 'endpoints', most: Number.MAX_SAFE_INTEGER } as const
  assertListings((await accountItemRepository.countItems(trx, all)).bytes, listingsMb)
}

function assertListings(bytes: number, listingsMb: number): void {
  if (bytes > listingsMb * MB) {
    throw new ApiError(
      'conflict',
      `descriptions, schemas and examples of the account's endpoints may take up at most ${listingsMb} MB in total; shorten some, delete an endpoint, or ask an operator to raise HEARTH_ACCOUNT_LISTINGS_MB`,
      { details: { limit_bytes: listingsMb * MB } },
    )
  }
}
