import { createHash } from 'node:crypto'
import type { Transaction } from 'kysely'
import * as evidenceRepository from '../../../../db/repositories/cohorts/evidence.ts'
import * as spaceRepository from '../../../../db/repositories/cohorts/spaces.ts'
import type { Database } from '../../../../db/tables.ts'
import type { CompatibilityEvidenceRow, ModelSpaceRow } from '../../../../db/tables/evaluator.ts'
import { canonicalJson } from '../../../../domain/canonical-json.ts'
import { faultsOfEvidence } from '../../../../domain/cohorts/evidence.ts'
import { ApiError, invalid, invalidFor } from '../../../../domain/errors.ts'
import { newId } from '../../../../domain/ids.ts'
import {
  CompatibilityEvidenceRegistration,
  EvidenceRegistered,
} from '../../../../schemas/cohort-evaluator.ts'
import { route } from '../../../http/route.ts'
import type { Services } from '../../../services.ts'
import { readAdapter } from './read-adapter.ts'

/** An adapter may come in the body, in base64. */
const LARGEST_BODY = 16 * 1024 * 1024

export const registerEvidence = route({
  operationId: 'registerEvidence',
  summary: 'Register that one space may stand for another, with the map and what was measured',
  method: 'POST',
  path: '/internal/cohort/evaluator/evidence',
  auth: 'evaluator-token',
  body: CompatibilityEvidenceRegistration,
  maxBodyBytes: LARGEST_BODY,
  success: { status: 200, schema: EvidenceRegistered },
  errors: ['conflict'],

  async handler({ body }, services) {
    const row = await storeEvidence(services, body)
    return {
      evidence_id: row.id,
      status: 'active' as const,
      score: row.score,
      supersedes: row.supersedes,
      registered_at: row.created_at.toISOString(),
      valid_until: row.valid_until.toISOString(),
    }
  },
})

/** Checks a registration and stores it with a copy of its adapter; the same one again answers the first. */
async function storeEvidence(
  { db, objects, config, now }: Pick<Services, 'db' | 'objects' | 'config' | 'now'>,
  body: CompatibilityEvidenceRegistration,
): Promise<CompatibilityEvidenceRow> {
  const { adapter, ...statement } = body
  const digest = digestOf(body)
  const bytes = adapter && (await readAdapter({ objects, config }, adapter))
  const id = newId()
  const object_key = `evidence/${id}/adapter.safetensors`
  if (bytes) await objects.put(object_key, bytes, { contentType: 'application/octet-stream' })
  try {
    const row = await db.transaction().execute(async (trx) => {
      const [source, target] = await activePair(trx, body)
      const faults = faultsOfEvidence(body, {
        source: source.specification,
        target: target.specification,
        now: now(),
      })
      if (faults.length > 0) {
        throw invalidFor(
          faults.map(({ path, message }) => ({ loc: ['body', ...path], msg: message, type: 'value_error' })),
        )
      }
      const pair = { source_fingerprint: source.fingerprint, target_fingerprint: target.fingerprint }
      await evidenceRepository.lockPair(trx, pair)
      const known = await evidenceRepository.findRepeated(trx, { ...pair, digest })
      if (known) return repeated(known)
      const before = await evidenceRepository.findActive(trx, { ...pair, metric: body.metric })
      const { uri: _uri, ...kept } = adapter ?? {}
      return evidenceRepository.insertEvidence(trx, {
        id,
        source_space_id: source.id,
        target_space_id: target.id,
        ...pair,
        relation: body.relation,
        metric: body.metric,
        score: body.score,
        adapter: adapter ? JSON.stringify({ ...kept, object_key }) : null,
        statement: JSON.stringify(statement),
        digest,
        supersedes: before?.id ?? null,
        run_id: body.run_id ?? null,
        valid_until: new Date(body.valid_until),
      })
    })
    if (bytes && row.id !== id) await objects.delete(object_key)
    return row
  } catch (err) {
    if (bytes) await objects.delete(object_key)
    throw err
  }
}

/** The digest of a registration; where its adapter lies is no part of it. */
function digestOf({ adapter, ...rest }: CompatibilityEvidenceRegistration): string {
  const { uri: _uri, ...kept } = adapter ?? {}
  return createHash('sha256')
    .update(canonicalJson({ ...rest, adapter: adapter ? kept : null }))
    .digest('hex')
}

async function activePair(
  trx: Transaction<Database>,
  body: CompatibilityEvidenceRegistration,
): Promise<[ModelSpaceRow, ModelSpaceRow]> {
  return [await activeSpace(trx, body, 'source_space_id'), await activeSpace(trx, body, 'target_space_id')]
}

async function activeSpace(
  trx: Transaction<Database>,
  body: CompatibilityEvidenceRegistration,
  field: 'source_space_id' | 'target_space_id',
): Promise<ModelSpaceRow> {
  const space = await spaceRepository.shareSpace(trx, body[field])
  if (!space) throw invalid(['body', field], 'there is no space with this id')
  if (space.status === 'revoked') {
    throw new ApiError('conflict', `the model of ${field} is revoked until its spaces are registered anew`, {
      details: { field, space_id: space.id, status: space.status },
    })
  }
  if (space.status === 'superseded')
    throw invalid(['body', field], 'a newer generation of its model is registered')
  return space
}

/** Returns the evidence that this registration has made; a 409 when it has ended since. */
function repeated(row: CompatibilityEvidenceRow): CompatibilityEvidenceRow {
  if (row.status === 'active') return row
  throw new ApiError('conflict', `this evidence was registered before, and is ${row.status}`, {
    details: { evidence_id: row.id, status: row.status },
  })
}
