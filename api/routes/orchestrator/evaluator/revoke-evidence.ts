import Type from 'typebox'
import * as evidenceRepository from '../../../../db/repositories/cohorts/evidence.ts'
import * as revocationRepository from '../../../../db/repositories/cohorts/revocations.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { EvidenceRevocation, EvidenceRevoked } from '../../../../schemas/cohorts/evaluator.ts'
import { Uuid } from '../../../../schemas/common.ts'
import { route } from '../../../http/route.ts'
import { presentRevocation, revokeOnce } from './revoke-once.ts'

export const revokeEvidence = route({
  operationId: 'revokeEvidence',
  summary:
    'Permanently withdraw evidence; hand-overs that rely on it fail immediately, unless they may drain',
  method: 'POST',
  path: '/internal/cohort/evaluator/evidence/{evidence_id}:revoke',
  auth: 'evaluator-token',
  params: Type.Object({ evidence_id: Uuid }),
  body: EvidenceRevocation,
  success: { status: 200, schema: EvidenceRevoked },
  errors: ['not_found'],

  async handler({ params: { evidence_id }, body }, services) {
    const row = await revokeOnce(services, body, {
      find: async (trx) => {
        const found = await evidenceRepository.lockForRevocation(trx, evidence_id)
        if (!found) throw new ApiError('not_found', 'there is no evidence with this id')
        return { kind: 'evidence', subjectId: found.id, generation: 0 }
      },
      revoke: (trx) => revocationRepository.revokeEvidence(trx, evidence_id),
      stop: (trx) => revocationRepository.failEdgesOf(trx, [evidence_id]),
    })
    return { evidence_id, ...presentRevocation(row) }
  },
})
