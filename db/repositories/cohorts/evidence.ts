import { type Kysely, sql, type Transaction } from 'kysely'
import { isUuid } from '../../../domain/uuid.ts'
import type { Database } from '../../tables.ts'
import type { CompatibilityEvidenceRow, NewEvidence } from '../../tables/evaluator.ts'

/** The states of evidence as its users see them. */
export type EvidenceState = CompatibilityEvidenceRow['status'] | 'expired'

export interface EvidenceMatch extends Pick<
  CompatibilityEvidenceRow,
  'id' | 'score' | 'metric' | 'relation' | 'adapter' | 'valid_until'
> {
  status: EvidenceState
}

const COLUMNS = ['id', 'score', 'metric', 'relation', 'adapter', 'valid_until'] as const

/** Active evidence past its validity is expired; this is computed, not stored. */
const STATE = sql<EvidenceState>`case when status = 'active' and valid_until <= now() then 'expired' else status end`

interface SpacePair {
  sourceSpaceId: string
  targetSpaceId: string
}

/**
 * Finds, per metric, the newest evidence that the first space can replace the second. Equal spaces share their
 * evidence, so we search by their fingerprints.
 */
export function findEvidence(
  db: Kysely<Database>,
  { sourceSpaceId, targetSpaceId }: SpacePair,
): Promise<EvidenceMatch[]> {
  const fingerprint = (id: string) => db.selectFrom('model_space').select('fingerprint').where('id', '=', id)
  return db
    .selectFrom('compatibility_evidence')
    .distinctOn('metric')
    .select([...COLUMNS, STATE.as('status')])
    .where('source_fingerprint', '=', fingerprint(sourceSpaceId))
    .where('target_fingerprint', '=', fingerprint(targetSpaceId))
    .where('status', '!=', 'superseded')
    .orderBy('metric')
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .execute()
}

/**
 * Finds evidence and locks it against revocation until the transaction ends; waits for a revocation in progress. A
 * revocation locks evidence before the edges that name it, so a transaction that also locks an edge must do this first.
 */
export function lockEvidence(
  trx: Transaction<Database>,
  evidenceId: string,
): Promise<EvidenceMatch | undefined> {
  return trx
    .selectFrom('compatibility_evidence')
    .select([...COLUMNS, STATE.as('status')])
    .where('id', '=', evidenceId)
    .forShare()
    .executeTakeFirst()
}

/** Returns whether revoked evidence still serves hand-overs that rely on it, because no revocation was immediate. */
export async function isDraining(db: Kysely<Database>, evidenceId: string): Promise<boolean> {
  const revocations = await db
    .selectFrom('evaluator_revocation')
    .select('effect')
    .where(sql<boolean>`${evidenceId}::uuid = any(evidence_revoked)`)
    .execute()
  return revocations.length > 0 && revocations.every(({ effect }) => effect === 'drain')
}

/**
 * Returns which of these evidence ids still need their map: the evidence is active or was active within the last day,
 * an open hand-over uses it, or the run with this id may still register it.
 */
export async function neededMaps(db: Kysely<Database>, names: readonly string[]): Promise<Set<string>> {
  const ids = names.filter(isUuid)
  const { rows } = await sql<{ id: string }>`
    select id from compatibility_evidence evidence where id = any(${ids}::uuid[])
      and (coalesce(ended_at, valid_until) > now() - interval '1 day' or exists (
        select from cohort_edge edge join cohort on cohort.id = edge.cohort_id
        where edge.evidence_id = evidence.id and not edge.closed
          and cohort.status not in ('succeeded', 'failed', 'cancelled')))
    union all
    select id from structured_run where id = any(${ids}::uuid[])
      and status not in ('registered', 'rejected', 'failed')`.execute(db)
  return new Set(rows.map(({ id }) => id))
}

type Fingerprints = Pick<CompatibilityEvidenceRow, 'source_fingerprint' | 'target_fingerprint'>

/** Serializes registrations for a pair of spaces. */
export async function lockPair(
  trx: Transaction<Database>,
  { source_fingerprint, target_fingerprint }: Fingerprints,
): Promise<void> {
  const pair = `evidence/${source_fingerprint}/${target_fingerprint}`
  await sql`select pg_advisory_xact_lock(hashtextextended(${pair}, 0))`.execute(trx)
}

/** Finds the newest evidence that the same registration created. */
export function findRepeated(
  db: Kysely<Database>,
  { source_fingerprint, target_fingerprint, digest }: Fingerprints & { digest: string },
): Promise<CompatibilityEvidenceRow | undefined> {
  return db
    .selectFrom('compatibility_evidence')
    .selectAll()
    .where('source_fingerprint', '=', source_fingerprint)
    .where('target_fingerprint', '=', target_fingerprint)
    .where('digest', '=', digest)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/** Finds the active evidence for a pair and a metric, even if it has expired. */
export function findActive(
  db: Kysely<Database>,
  { source_fingerprint, target_fingerprint, metric }: Fingerprints & Pick<NewEvidence, 'metric'>,
): Promise<CompatibilityEvidenceRow | undefined> {
  return db
    .selectFrom('compatibility_evidence')
    .selectAll()
    .where('source_fingerprint', '=', source_fingerprint)
    .where('target_fingerprint', '=', target_fingerprint)
    .where('metric', '=', metric)
    .where('status', '=', 'active')
    .executeTakeFirst()
}

/** Inserts evidence as the active one for its pair and metric. */
export async function insertEvidence(
  trx: Transaction<Database>,
  evidence: NewEvidence,
): Promise<CompatibilityEvidenceRow> {
  await trx
    .updateTable('compatibility_evidence')
    .set({ status: 'superseded', ended_at: sql<Date>`now()` })
    .where('source_fingerprint', '=', evidence.source_fingerprint)
    .where('target_fingerprint', '=', evidence.target_fingerprint)
    .where('metric', '=', evidence.metric)
    .where('status', '=', 'active')
    .execute()
  return trx.insertInto('compatibility_evidence').values(evidence).returningAll().executeTakeFirstOrThrow()
}

/** Ends the evidence of spaces that no longer equal any active space. */
export async function supersedeOrphans(
  trx: Transaction<Database>,
  fingerprints: readonly string[],
): Promise<void> {
  const isOrphaned = (column: 'source_fingerprint' | 'target_fingerprint') =>
    sql<boolean>`${sql.ref(column)} = any(${fingerprints}::text[]) and not exists (
      select from model_space where status = 'active' and model_space.fingerprint = ${sql.ref(column)})`
  await trx
    .updateTable('compatibility_evidence')
    .set({ status: 'superseded', ended_at: sql<Date>`now()` })
    .where('status', '=', 'active')
    .where((eb) => eb.or([isOrphaned('source_fingerprint'), isOrphaned('target_fingerprint')]))
    .execute()
}

/** Finds and locks evidence that is about to be revoked. */
export function lockForRevocation(
  trx: Transaction<Database>,
  id: string,
): Promise<CompatibilityEvidenceRow | undefined> {
  return trx
    .selectFrom('compatibility_evidence')
    .selectAll()
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst()
}
