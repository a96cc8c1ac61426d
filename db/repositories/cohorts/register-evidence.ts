import { hash } from 'node:crypto'
import type { Transaction } from 'kysely'
import { canonicalJson } from '../../../domain/canonical-json.ts'
import { faultsOfEvidence } from '../../../domain/cohorts/evidence.ts'
import { ApiError, invalid, invalidFor } from '../../../domain/errors.ts'
import type { CompatibilityEvidenceRegistration } from '../../../schemas/cohorts/evaluator.ts'
import type { Database } from '../../tables.ts'
import type { CompatibilityEvidenceRow, ModelSpaceRow } from '../../tables/evaluator.ts'
import * as evidenceRepository from './evidence.ts'
import * as spaceRepository from './spaces.ts'

export interface EvidenceToRegister {
  /** The id for the new evidence; unused if the registration is a repeat. */
  id: string
  body: CompatibilityEvidenceRegistration
  /** The platform's copy of the map. */
  objectKey: string
  now: Date
}

/**
 * Checks a registration, except for its map, and stores it; a repeat returns the first one. Throws a 422 that names
 * what is wrong, or a 409 if the evidence or a model has been revoked.
 */
export async function registerEvidence(
  trx: Transaction<Database>,
  { id, body, objectKey, now }: EvidenceToRegister,
): Promise<CompatibilityEvidenceRow> {
  const source = await activeSpace(trx, body, 'source_space_id')
  const target = await activeSpace(trx, body, 'target_space_id')
  const faults = faultsOfEvidence(body, { source: source.specification, target: target.specification, now })
  if (faults.length > 0) {
    throw invalidFor(
      faults.map(({ path, message }) => ({ loc: ['body', ...path], msg: message, type: 'value_error' })),
    )
  }
  const pair = { source_fingerprint: source.fingerprint, target_fingerprint: target.fingerprint }
  await evidenceRepository.lockPair(trx, pair)
  const digest = digestOf(body)
  const known = await evidenceRepository.findRepeated(trx, { ...pair, digest })
  if (known) return repeated(known)
  const before = await evidenceRepository.findActive(trx, { ...pair, metric: body.metric })
  const { adapter, ...statement } = body
  return evidenceRepository.insertEvidence(trx, {
    id,
    source_space_id: source.id,
    target_space_id: target.id,
    ...pair,
    relation: body.relation,
    metric: body.metric,
    score: body.score,
    adapter: adapter ? JSON.stringify({ ...withoutUri(adapter), object_key: objectKey }) : null,
    statement: JSON.stringify(statement),
    digest,
    supersedes: before?.id ?? null,
    run_id: body.run_id ?? null,
    valid_until: new Date(body.valid_until),
  })
}

const withoutUri = ({ uri: _uri, ...rest }: NonNullable<CompatibilityEvidenceRegistration['adapter']>) => rest

/** Returns the digest of a registration, which does not include the location of its map. */
const digestOf = ({ adapter, ...rest }: CompatibilityEvidenceRegistration): string =>
  hash('sha256', canonicalJson({ ...rest, adapter: adapter && withoutUri(adapter) }))

async function activeSpace(
  trx: Transaction<Database>,
  body: CompatibilityEvidenceRegistration,
  field: 'source_space_id' | 'target_space_id',
): Promise<ModelSpaceRow> {
  const space = await spaceRepository.shareSpace(trx, body[field])
  if (!space) throw invalid(['body', field], 'there is no space with this id')
  if (space.status === 'revoked') {
    throw new ApiError('conflict', `the model of ${field} is revoked until its spaces are registered again`, {
      details: { field, space_id: space.id, status: space.status },
    })
  }
  if (space.status === 'superseded')
    throw invalid(['body', field], 'a newer generation of its model is registered')
  return space
}

/** Returns the evidence that this registration created; throws a 409 if it has ended since. */
function repeated(row: CompatibilityEvidenceRow): CompatibilityEvidenceRow {
  if (row.status === 'active') return row
  throw new ApiError('conflict', `this evidence was already registered and is ${row.status}`, {
    details: { evidence_id: row.id, status: row.status },
  })
}
