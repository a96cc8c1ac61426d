import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import type { RevocationEffect } from '../../../schemas/cohorts/evaluator.ts'
import type { EdgeFailure } from '../../../schemas/cohorts/vocabulary.ts'
import type { Database } from '../../tables.ts'
import type { EvaluatorRevocationRow } from '../../tables/evaluator.ts'
import { endAttempt } from './edge-retries.ts'
import { appendCohortEvents } from './events.ts'
import { recallStages } from './stage-leases.ts'
import { lockStagesAtWork, noteStageError } from './stages.ts'

type RowCondition = RawBuilder<boolean>

export interface Revocation {
  kind: 'model' | 'evidence'
  subjectId: string
  generation: number
  reason: string
  effect: RevocationEffect
}

/** Finds the stored result of a revocation. */
export function findRevocation(
  db: Kysely<Database>,
  { kind, subjectId, generation }: Pick<Revocation, 'kind' | 'subjectId' | 'generation'>,
): Promise<EvaluatorRevocationRow | undefined> {
  return db
    .selectFrom('evaluator_revocation')
    .selectAll()
    .where('kind', '=', kind)
    .where('subject_id', '=', subjectId)
    .where('generation', '=', generation)
    .executeTakeFirst()
}

/**
 * Revokes the spaces of a locked version and all evidence about equal spaces; returns the evidence that ended with
 * them. A revocation is never undone: a later registration creates a new generation.
 */
export async function revokeSpaces(trx: Transaction<Database>, versionId: string): Promise<string[]> {
  const spaces = await trx
    .updateTable('model_space')
    .set({ status: 'revoked' })
    .where('version_id', '=', versionId)
    .where('status', '!=', 'revoked')
    .returning('fingerprint')
    .execute()
  const fingerprints = spaces.map(({ fingerprint }) => fingerprint)
  const about = sql<boolean>`(source_fingerprint = any(${fingerprints}::text[]) or target_fingerprint = any(${fingerprints}::text[]))`
  return endEvidence(trx, about)
}

/** Revokes a piece of evidence; returns its id, or an empty list if it was already revoked. */
export const revokeEvidence = (trx: Transaction<Database>, id: string): Promise<string[]> =>
  endEvidence(trx, sql<boolean>`id = ${id}`)

async function endEvidence(trx: Transaction<Database>, which: RowCondition): Promise<string[]> {
  const rows = await trx
    .updateTable('compatibility_evidence')
    .set({ status: 'revoked', ended_at: sql<Date>`now()` })
    .where(which)
    .where('status', '!=', 'revoked')
    .returning('id')
    .execute()
  return rows.map(({ id }) => id).toSorted()
}

export interface StoppedEdges {
  edgesFailed: number
  cohortsAffected: string[]
}

/** Fails the hand-overs of open cohorts that rely on this evidence, unless their consumers have ended. */
export const failEdgesOf = (trx: Transaction<Database>, evidence: readonly string[]): Promise<StoppedEdges> =>
  failEdges(trx, 'evidence_revoked', sql<boolean>`evidence_id = any(${evidence}::uuid[])`)

/**
 * Fails hand-overs that begin or end in a space of this version, or that rely on this evidence or on any other about
 * its newest spaces: evidence that was revoked earlier may still be draining.
 */
export function failEdgesAt(
  trx: Transaction<Database>,
  versionId: string,
  evidence: readonly string[],
): Promise<StoppedEdges> {
  const spaces = sql`(select id from model_space where version_id = ${versionId})`
  const newest = sql`(select fingerprint from model_space where version_id = ${versionId}
    and generation = (select max(generation) from model_space where version_id = ${versionId}))`
  const about = sql`(select id from compatibility_evidence
    where source_fingerprint in ${newest} or target_fingerprint in ${newest})`
  return failEdges(
    trx,
    'space_revoked',
    sql<boolean>`(source_space_id in ${spaces} or target_space_id in ${spaces}
      or evidence_id = any(${evidence}::uuid[]) or evidence_id in ${about})`,
  )
}

async function failEdges(
  trx: Transaction<Database>,
  failure: EdgeFailure,
  which: RowCondition,
): Promise<StoppedEdges> {
  const relying = await trx
    .selectFrom('cohort_edge')
    .innerJoin('cohort', 'cohort.id', 'cohort_edge.cohort_id')
    .select([
      'cohort_edge.id',
      'cohort_edge.name',
      'cohort_edge.cohort_id',
      'cohort_edge.to_stage_id',
      'cohort_edge.attempt',
      'cohort_edge.state',
      'cohort_edge.evidence_id',
    ])
    .where(which)
    .where('cohort_edge.state', '<>', 'failed')
    .where('cohort_edge.closed', '=', false)
    .where('cohort.status', 'not in', ['succeeded', 'failed', 'cancelled'])
    .orderBy('cohort_edge.id')
    .forNoKeyUpdate('cohort_edge')
    .execute()
  const atWork = await lockStagesAtWork(
    trx,
    relying.map(({ to_stage_id }) => to_stage_id),
  )
  const isAtWork = (edge: (typeof relying)[number]) => atWork.some(({ id }) => id === edge.to_stage_id)
  const edges = relying.filter((edge) => edge.state !== 'consumed' || isAtWork(edge))
  for (const edge of edges) await endAttempt(trx, edge, failure)
  for (const { id, status } of atWork) {
    const into = edges.filter(({ to_stage_id }) => to_stage_id === id)
    const hasTaken = into.some(({ state }) => state === 'consumed')
    // A stage that is already running has enough other values and doesn't need this one.
    if (status === 'running' && !hasTaken) continue
    const message = `the evidence or space that hand-over "${into[0]?.name}" relies on was revoked`
    await noteStageError(trx, id, { code: failure, message, retryable: false })
    if (hasTaken) await recallStages(trx, [id])
  }
  const cohortsAffected = [...new Set(edges.map(({ cohort_id }) => cohort_id))].toSorted()
  for (const cohortId of cohortsAffected) {
    const cohortEdges = edges.filter(({ cohort_id }) => cohort_id === cohortId)
    const evidence = [...new Set(cohortEdges.map(({ evidence_id }) => evidence_id))]
    await appendCohortEvents(trx, cohortId, [
      {
        type: 'evidence.revoked',
        data: { evidence_ids: evidence.filter((id) => id !== null), reason: failure },
      },
      ...cohortEdges.map(({ id, attempt }) => ({
        type: 'edge.failed' as const,
        edgeId: id,
        attempt,
        data: { failure },
      })),
    ])
  }
  return { edgesFailed: edges.length, cohortsAffected }
}

/** Stores the result of a revocation, for its repeats. A draining revocation may become immediate later. */
export function storeRevocation(
  trx: Transaction<Database>,
  { kind, subjectId, generation, reason, effect }: Revocation,
  { evidence, edgesFailed, cohortsAffected }: StoppedEdges & { evidence: readonly string[] },
): Promise<EvaluatorRevocationRow> {
  const stopped = { effect, edges_failed: edgesFailed, cohorts_affected: cohortsAffected }
  return trx
    .insertInto('evaluator_revocation')
    .values({
      id: newId(),
      kind,
      subject_id: subjectId,
      generation,
      reason,
      evidence_revoked: [...evidence],
      ...stopped,
    })
    .onConflict((conflict) => conflict.columns(['kind', 'subject_id', 'generation']).doUpdateSet(stopped))
    .returningAll()
    .executeTakeFirstOrThrow()
}
