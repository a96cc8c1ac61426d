import type { Kysely } from 'kysely'
import * as endpointRepository from '../../../../db/repositories/endpoints/endpoints.ts'
import type { Database } from '../../../../db/tables.ts'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import { accessTo } from '../../../../domain/endpoint.ts'
import { ApiError } from '../../../../domain/errors.ts'

export const endpointNotFound = (): ApiError =>
  new ApiError('not_found', 'there is no endpoint with this id or name')

/**
 * Returns the endpoint if this account may use it: 404 when the account must not know of it, 403 when it
 * may know but not use it.
 */
export async function usableEndpoint(
  db: Kysely<Database>,
  accountId: string,
  idOrName: string,
): Promise<EndpointRow> {
  const row = await endpointRepository.findEndpoint(db, idOrName)
  switch (row ? accessTo(row, accountId) : 'none') {
    case 'own':
    case 'use':
      return row!
    case 'known':
      throw new ApiError('forbidden', 'this endpoint is not open to your account')
    case 'none':
      throw endpointNotFound()
  }
}

/** Returns the endpoint if this account owns it; one that it may only use is a 403. */
export async function ownEndpoint(
  db: Kysely<Database>,
  accountId: string,
  idOrName: string,
): Promise<EndpointRow> {
  const row = await usableEndpoint(db, accountId, idOrName)
  if (row.account_id === accountId) return row
  throw new ApiError('forbidden', 'this endpoint belongs to another account')
}
