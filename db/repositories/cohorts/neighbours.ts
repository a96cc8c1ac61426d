import { type Kysely, sql } from 'kysely'
import { MAPPED } from '../../../domain/cohorts/spaces/spaces.ts'
import type { Neighbour } from '../../../schemas/cohorts/health.ts'
import type { Database } from '../../tables.ts'

interface NeighbourQuery {
  accountId: string
  endpointId: string
  /** The fingerprints of the endpoint's own spaces. */
  fingerprints: readonly string[]
  /** The side that the endpoint itself is on. */
  side: 'source' | 'target'
}

const MAX_NEIGHBOURS = 50

/** Finds the account's endpoints that an endpoint may hand a representation to, or receive one from. */
export async function findNeighbours(
  db: Kysely<Database>,
  { accountId, endpointId, fingerprints, side }: NeighbourQuery,
): Promise<Neighbour[]> {
  if (fingerprints.length === 0) return []
  const [own, other] = side === 'source' ? ['source', 'target'] : ['target', 'source']
  const roles = side === 'source' ? ['accepts', 'both'] : ['produces', 'both']
  const { rows } = await sql<{
    endpoint_id: string
    evidence_id: string | null
    score: number | null
    valid_until: Date | null
  }>`
    with reach as (
      select fingerprint, null::uuid as evidence_id, null::float8 as score, null::timestamptz as valid_until
      from unnest(${fingerprints}::text[]) as equal(fingerprint)
      union all
      select ${sql.ref(`${other}_fingerprint`)}, id, score, valid_until from compatibility_evidence
      where status = 'active' and valid_until > now() and (adapter is null or exists (
          select from model_space mapped
          where mapped.id = compatibility_evidence.target_space_id and mapped.kind = any(${MAPPED}::text[])))
        and ${sql.ref(`${own}_fingerprint`)} = any(${fingerprints}::text[])
    )
    select distinct on (endpoint.id) endpoint.id as endpoint_id, reach.evidence_id, reach.score, reach.valid_until
    from reach
    join model_space space on space.fingerprint = reach.fingerprint and space.status = 'active'
      and space.role = any(${roles}::text[])
    join endpoint on endpoint.version_id = space.version_id and endpoint.deleted_at is null
    where endpoint.account_id = ${accountId}::uuid and endpoint.id <> ${endpointId}::uuid
    order by endpoint.id, reach.evidence_id nulls first
    limit ${MAX_NEIGHBOURS}`.execute(db)
  return rows.map(({ endpoint_id, evidence_id, score, valid_until }) => ({
    endpoint_id,
    via: evidence_id === null ? 'equal' : 'evidence',
    evidence_id,
    score,
    valid_until: valid_until?.toISOString() ?? null,
  }))
}
