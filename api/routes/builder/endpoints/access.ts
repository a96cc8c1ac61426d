import type { Kysely } from 'kysely'
import * as endpointRepository from '../../../../db/repositories/endpoints/endpoints.ts'
import type { Database } from '../../../../db/tables.ts'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import { accessTo } from '../../../../domain/endpoint.ts'
import { ApiError } from '../../../../domain/errors.ts'

export const endpointNotFound = (): ApiError =>
  new ApiError('not_found', 'there is no endpoint with this id or name')

type Facts = endpointRepository.EndpointFacts

/** Returns the endpoint if this account may use it; throws like `assertUsable`. */
export async function usableEndpoint(
  db: Kysely<Database>,
  accountId: string,
  idOrName: string,
): Promise<EndpointRow> {
  const row = await endpointRepository.findEndpoint(db, idOrName)
  assertUsable(row, accountId)
  return row
}

/** Like `usableEndpoint`, but without the endpoint's listing. */
export async function usableEndpointFacts(
  db: Kysely<Database>,
  accountId: string,
  idOrName: string,
): Promise<Facts> {
  const row = await endpointRepository.findEndpointFacts(db, idOrName)
  assertUsable(row, accountId)
  return row
}

/** Throws a 404 if the account must not know of the endpoint, and a 403 if it may know of it but not use it. */
function assertUsable(row: Facts | undefined, accountId: string): asserts row {
  switch (row ? accessTo(row, accountId) : 'none') {
    case 'own':
    case 'use':
      return
    case 'known':
      throw new ApiError('forbidden', 'this endpoint is not open to your account')
    case 'none':
      throw endpointNotFound()
  }
}

/** Returns the endpoint if this account owns it; throws a 403 if the account may only use it. */
export async function ownEndpoint(
  db: Kysely<Database>,
  accountId: string,
  idOrName: string,
): Promise<EndpointRow> {
  const row = await usableEndpoint(db, accountId, idOrName)
  assertOwn(row, accountId)
  return row
}

/** Throws a 403 for an endpoint that the account may only use. */
export function assertOwn({ account_id }: Facts, accountId: string): void {
  if (account_id === accountId) return
  throw new ApiError('forbidden', 'this endpoint belongs to another account')
}
