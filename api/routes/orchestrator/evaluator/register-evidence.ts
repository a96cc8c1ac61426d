import { registerEvidence as register } from '../../../../db/repositories/cohorts/register-evidence.ts'
import { newId } from '../../../../domain/ids.ts'
import { evidenceKey } from '../../../../domain/object-keys.ts'
import {
  CompatibilityEvidenceRegistration,
  EvidenceRegistered,
} from '../../../../schemas/cohorts/evaluator.ts'
import { route } from '../../../http/route.ts'
import { readAdapter } from './read-adapter.ts'

/** A body may contain a map, in base64. */
const MAX_BODY = 16 * 1024 * 1024

export const registerEvidence = route({
  operationId: 'registerEvidence',
  summary: 'Register evidence that one space may replace another, with the map and the measurements',
  method: 'POST',
  path: '/internal/cohort/evaluator/evidence',
  auth: 'evaluator-token',
  body: CompatibilityEvidenceRegistration,
  maxBodyBytes: MAX_BODY,
  success: { status: 200, schema: EvidenceRegistered },
  errors: ['conflict'],

  async handler({ body }, { db, objects, config, now }) {
    const bytes = body.adapter && (await readAdapter({ objects, config }, body.adapter))
    const id = newId()
    const objectKey = evidenceKey(id)
    if (bytes) await objects.put(objectKey, bytes, { contentType: 'application/octet-stream' })
    try {
      const row = await db.transaction().execute((trx) => register(trx, { id, body, objectKey, now: now() }))
      if (bytes && row.id !== id) await objects.delete(objectKey)
      return {
        evidence_id: row.id,
        status: 'active' as const,
        score: row.score,
        supersedes: row.supersedes,
        registered_at: row.created_at.toISOString(),
        valid_until: row.valid_until.toISOString(),
      }
    } catch (err) {
      if (bytes) await objects.delete(objectKey)
      throw err
    }
  },
})
