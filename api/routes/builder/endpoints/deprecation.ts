import type { Transaction } from 'kysely'
import * as endpointRepository from '../../../../db/repositories/endpoints/endpoints.ts'
import type { Database } from '../../../../db/tables.ts'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import { accessTo } from '../../../../domain/endpoint.ts'
import { invalid } from '../../../../domain/errors.ts'
import type { UpdateEndpoint } from '../../../../schemas/endpoint.ts'

const LOC = ['body', 'replaced_by'] as const

/** Returns the deprecation columns after a change; both are null for an endpoint that is not deprecated. */
export async function deprecationAfter(
  trx: Transaction<Database>,
  before: EndpointRow,
  { status = before.status, replaced_by }: Pick<UpdateEndpoint, 'status' | 'replaced_by'>,
  now: Date,
): Promise<Pick<EndpointRow, 'deprecated_at' | 'replaced_by'>> {
  if (status !== 'deprecated') {
    if (replaced_by)
      throw invalid(LOC, 'only a deprecated endpoint has a replacement; send it with status deprecated')
    return { deprecated_at: null, replaced_by: null }
  }
  const since = before.status === 'deprecated' ? (before.deprecated_at ?? before.updated_at) : now
  if (replaced_by === undefined) return { deprecated_at: since, replaced_by: before.replaced_by }
  const name = replaced_by === null ? null : await replacementName(trx, before, replaced_by)
  return { deprecated_at: since, replaced_by: name }
}

async function replacementName(
  trx: Transaction<Database>,
  { id, account_id }: EndpointRow,
  idOrName: string,
): Promise<string> {
  // Hold the lock until this change has committed, so that a concurrent deletion sees the change.
  const row = await endpointRepository.shareLockEndpoint(trx, idOrName)
  const access = row ? accessTo(row, account_id) : 'none'
  if (!row || (access !== 'own' && access !== 'use'))
    throw invalid(LOC, 'there is no endpoint with this id or name that you may use')
  if (row.id === id) throw invalid(LOC, 'an endpoint cannot replace itself')
  if (row.status === 'deprecated')
    throw invalid(LOC, `${row.name} is deprecated as well; name the endpoint that replaces it`)
  return row.name
}
