import type { Transaction } from 'kysely'
import type { Static } from 'typebox'
import * as revocationRepository from '../../../../db/repositories/cohorts/revocations.ts'
import type { Revocation, StoppedEdges } from '../../../../db/repositories/cohorts/revocations.ts'
import { retryTransaction } from '../../../../db/retry-transaction.ts'
import type { Database } from '../../../../db/tables.ts'
import type { EvaluatorRevocationRow } from '../../../../db/tables/evaluator.ts'
import type { EvidenceRevocation } from '../../../../schemas/cohorts/evaluator.ts'
import type { Services } from '../../../services.ts'

type Trx = Transaction<Database>

interface Steps {
  /** Finds and locks the subject to revoke. */
  find(trx: Trx): Promise<Pick<Revocation, 'kind' | 'subjectId' | 'generation'>>
  /** Revokes the subject; returns the evidence that was revoked with it. */
  revoke(trx: Trx): Promise<string[]>
  /** Stops the hand-overs that rely on the evidence. */
  stop(trx: Trx, evidence: readonly string[]): Promise<StoppedEdges>
}

const NOTHING: StoppedEdges = { edgesFailed: 0, cohortsAffected: [] }

/**
 * Revokes in one transaction, so that no hand-over is consumed afterwards; work that relies on an already consumed
 * hand-over is cancelled. A repeat returns the first revocation, but an immediate revocation may follow a draining one.
 */
export function revokeOnce(
  { db }: Pick<Services, 'db'>,
  { reason, effect = 'immediate' }: Static<typeof EvidenceRevocation>,
  steps: Steps,
): Promise<EvaluatorRevocationRow> {
  return retryTransaction(db, async (trx) => {
    const subject = await steps.find(trx)
    const first = await revocationRepository.findRevocation(trx, subject)
    if (first && (first.effect === 'immediate' || effect === 'drain')) return first

    const evidence = first ? first.evidence_revoked : await steps.revoke(trx)
    const stopped = effect === 'immediate' ? await steps.stop(trx, evidence) : NOTHING
    const revocation = { ...subject, reason, effect }
    return revocationRepository.storeRevocation(trx, revocation, { evidence, ...stopped })
  })
}

/** Returns the response to a revocation. */
export const presentRevocation = (row: EvaluatorRevocationRow) => ({
  status: 'revoked' as const,
  revoked_at: row.created_at.toISOString(),
  reason: row.reason,
  evidence_revoked: row.evidence_revoked,
  edges_failed: row.edges_failed,
  cohorts_affected: row.cohorts_affected,
})
