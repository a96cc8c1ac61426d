import { type Kysely, sql, type Transaction, type Updateable } from 'kysely'
import { EDGE_SECONDS } from '../../../domain/cohorts/edges/deadlines.ts'
import type { EdgeRole } from '../../../schemas/cohorts/edge.ts'
import type { CohortState } from '../../../schemas/cohorts/vocabulary.ts'
import type { Database } from '../../tables.ts'
import type { CohortEdgeAttemptRow, CohortEdgeAttemptUpdate } from '../../tables/cohort-edges.ts'
import type { CohortEdgeRow, CohortEdgeTable, StageFacts } from '../../tables/cohorts.ts'
import { EDGE_FACTS, SPEC_OUTLINE } from './cohorts.ts'

/** Triggers notify this channel with an edge's id when its row changes, its consumer succeeds or its cohort ends. */
export const EDGE_CHANNEL = 'hearth_edge'

/*
 * Lock order: spaces, evidence, edges, stages, leases, the cohort, which is locked only to number events. Lock several
 * edges in the order of their ids, and several stages in the order of their positions.
 */

/** Every column by name, because a statement with `*` is not prepared. */
const EDGE_COLUMNS = ([...EDGE_FACTS, 'payload', 'template'] as const).map(
  (name) => `cohort_edge.${name}` as const,
)
const ATTEMPT_COLUMNS = [
  'edge_id',
  'attempt',
  'state',
  'producer_node_id',
  'consumer_node_id',
  'producer_offer',
  'consumer_offer',
  'agreed',
  'candidates',
  'spki_sha256',
  'ticket_sha256',
  'ticket_expires_at',
  'probes',
  'selected',
  'session_id',
  'acknowledged',
  'bytes',
  'failure',
  'hold_until',
  'called_at',
  'alone_since',
  'opened_at',
  'progress_at',
  'progress_events',
  'created_at',
] as const satisfies (keyof CohortEdgeAttemptRow)[]

export interface LockedEdge extends CohortEdgeRow {
  account_id: string
  cohort_status: CohortState
  cohort_deadline_at: Date
  /** The database's current time. */
  now: Date
}

/** The evidence and spaces that justify an edge; they are locked before the edge itself. */
export interface EdgeGrounds {
  evidenceId: string | undefined
  spaceIds: readonly string[]
}

/** Returns the evidence and the registered spaces that an edge names. */
export async function findGroundsOf(
  db: Kysely<Database>,
  { edgeId }: { edgeId: string },
): Promise<EdgeGrounds> {
  const edge = await db
    .selectFrom('cohort_edge')
    .select(['evidence_id', 'source_space_id', 'target_space_id'])
    .where('id', '=', edgeId)
    .executeTakeFirst()
  const spaceIds = new Set([edge?.source_space_id, edge?.target_space_id])
  return {
    evidenceId: edge?.evidence_id ?? undefined,
    spaceIds: [...spaceIds].filter((id) => typeof id === 'string'),
  }
}

/** Locks an edge of a cohort. */
export function lockEdge(
  trx: Transaction<Database>,
  { cohortId, edgeId }: { cohortId: string; edgeId: string },
): Promise<LockedEdge | undefined> {
  return trx
    .selectFrom('cohort_edge')
    .innerJoin('cohort', 'cohort.id', 'cohort_edge.cohort_id')
    .select(EDGE_COLUMNS)
    .select([
      'cohort.account_id',
      'cohort.status as cohort_status',
      'cohort.deadline_at as cohort_deadline_at',
      sql<Date>`clock_timestamp()`.as('now'),
    ])
    .where('cohort_edge.id', '=', edgeId)
    .where('cohort_edge.cohort_id', '=', cohortId)
    .forNoKeyUpdate('cohort_edge')
    .executeTakeFirst()
}

/** Reads a locked edge again. */
export const readEdge = (trx: Transaction<Database>, edgeId: string): Promise<CohortEdgeRow> =>
  trx.selectFrom('cohort_edge').select(EDGE_COLUMNS).where('id', '=', edgeId).executeTakeFirstOrThrow()

interface Holder {
  stageId: string
  role: EdgeRole
  token: string
  nodeId: string
}

/**
 * Returns whether a node is working under a stage's newest lease, and locks that lease until the transaction ends. A
 * producer's lease may be completed, because its payload outlives its work.
 */
export async function holdsStage(
  trx: Transaction<Database>,
  { stageId, role, token, nodeId }: Holder,
): Promise<boolean> {
  const isCompleted = role === 'producer' ? sql`lease.state = 'completed'` : sql`false`
  const { rows } = await sql`
    select 1 from lease
    where token = ${token}::uuid and kind = 'stage' and subject_id = ${stageId}::uuid and node_id = ${nodeId}::uuid
      and ((lease.state = 'active' and expires_at > now()) or ${isCompleted})
      and not exists (
        select 1 from lease later
        where later.kind = 'stage' and later.subject_id = lease.subject_id and later.attempt > lease.attempt)
    for share of lease`.execute(trx)
  return rows.length > 0
}

type Side = Pick<StageFacts, 'id' | 'name' | 'status' | 'outline' | 'loaded_at' | 'completed_at'>

/** The stages at the ends of an edge. */
export interface EdgeSides {
  producer: Side | undefined
  consumer: Side
}

/**
 * Locks the stages of an edge, so that neither ends in the meantime. A transaction that decides whether the consumer
 * may run locks it exclusively: otherwise two that each consume one of the last two edges would not see each other.
 */
export async function lockSides(
  trx: Transaction<Database>,
  { from_stage_id, to_stage_id }: CohortEdgeRow,
  { decides = false } = {},
): Promise<EdgeSides> {
  const stages = (ids: readonly (string | null)[]) =>
    trx
      .selectFrom('cohort_stage')
      .select(['id', 'name', 'status', SPEC_OUTLINE, 'loaded_at', 'completed_at'])
      .where('id', '=', sql<string>`any(${ids}::uuid[])`)
      .orderBy('position')
  const shared = await stages([from_stage_id, ...(decides ? [] : [to_stage_id])])
    .forShare()
    .execute()
  const consumer = decides
    ? await stages([to_stage_id]).forNoKeyUpdate().executeTakeFirst()
    : shared.find(({ id }) => id === to_stage_id)
  if (!consumer) throw new Error(`there is no stage ${to_stage_id}`)
  return { producer: shared.find(({ id }) => id === from_stage_id), consumer }
}

/** An attempt at an edge, as a call finds it. */
export interface CalledAttempt extends CohortEdgeAttemptRow {
  /** True if the producer still had to retain its payload when the call arrived. */
  was_held: boolean
  /** The time of the previous call; null for the first one. */
  was_called_at: Date | null
}

/**
 * Returns the row of a locked edge's current attempt, which the first call creates. Records every call there, so that
 * silence can be distinguished from work, and extends the hold.
 */
export async function callAttempt(
  trx: Transaction<Database>,
  { id, attempt, state }: CohortEdgeRow,
  { role, nodeId }: { role: EdgeRole; nodeId: string },
): Promise<CalledAttempt> {
  const node = sql.ref(`${role}_node_id`)
  // In these states it's the consumer's turn, so a call by the producer must not reset the measured silence.
  const isOthersTurn = role === 'producer' && (state === 'open' || state === 'transferred')
  const { rows } = await sql<CalledAttempt>`
    with before as (
      select hold_until, called_at from cohort_edge_attempt where edge_id = ${id}::uuid and attempt = ${attempt})
    insert into cohort_edge_attempt (edge_id, attempt, ${node}, called_at, hold_until)
    values (${id}::uuid, ${attempt}, ${nodeId}::uuid, clock_timestamp(),
      clock_timestamp() + make_interval(secs => ${EDGE_SECONDS.hold}))
    on conflict (edge_id, attempt) do update set
      ${node} = excluded.${node}, hold_until = excluded.hold_until,
      called_at = case when ${isOthersTurn}::boolean then cohort_edge_attempt.called_at else excluded.called_at end,
      alone_since = case
        when ${role === 'producer'}::boolean then null
        when cohort_edge_attempt.called_at < excluded.called_at - make_interval(secs => ${EDGE_SECONDS.pause}) then excluded.called_at
        else coalesce(cohort_edge_attempt.alone_since, excluded.called_at) end
    returning ${sql.raw(ATTEMPT_COLUMNS.join(', '))}, (select called_at from before) as was_called_at,
      coalesce((select hold_until > clock_timestamp() from before), true) as was_held`.execute(trx)
  const [row] = rows
  if (!row) throw new Error('an upsert returns its row')
  return row
}

export interface EdgeChange {
  edge?: Updateable<CohortEdgeTable>
  attempt?: CohortEdgeAttemptUpdate
}

/**
 * Writes to a locked edge and its attempt, each only if it has not changed since it was read. Both store the state; the
 * attempt keeps its own when another attempt begins.
 */
export async function changeEdge(
  trx: Transaction<Database>,
  was: Pick<CohortEdgeRow, 'id' | 'attempt' | 'state'>,
  { edge = {}, attempt = {} }: EdgeChange,
): Promise<{ edge: CohortEdgeRow; attempt: CohortEdgeAttemptRow }> {
  const state = edge.state ?? was.state
  const changed = await trx
    .updateTable('cohort_edge')
    .set({ ...edge, state })
    .where('id', '=', was.id)
    .where('attempt', '=', was.attempt)
    .where('state', '=', was.state)
    .returning(EDGE_COLUMNS)
    .executeTakeFirstOrThrow()
  const tried = await trx
    .updateTable('cohort_edge_attempt')
    .set({ ...attempt, state, ...(edge.failure !== undefined && { failure: edge.failure }) })
    .where('edge_id', '=', was.id)
    .where('attempt', '=', was.attempt)
    .returning(ATTEMPT_COLUMNS)
    .executeTakeFirstOrThrow()
  return { edge: changed, attempt: tried }
}

/**
 * Returns whether a stage has the inputs that it needs: with a quorum, that many of its incoming edges are consumed;
 * without one, each is consumed or closed.
 */
export async function mayRun(db: Kysely<Database>, { id, outline: { quorum } }: Side): Promise<boolean> {
  const { rows } = await sql<{ waiting: number; consumed: number }>`
    select count(*) filter (where state <> 'consumed' and not closed)::int as waiting,
      count(*) filter (where state = 'consumed')::int as consumed
    from cohort_edge where to_stage_id = ${id}::uuid and from_stage_id is not null`.execute(db)
  const { waiting, consumed } = rows[0] ?? { waiting: 0, consumed: 0 }
  return typeof quorum === 'number' ? consumed >= quorum : waiting === 0
}

/** Returns whether an edge's producer has announced its payload, or no payload is expected any longer. */
export async function isStated(db: Kysely<Database>, edgeId: string): Promise<boolean> {
  const edge = await db
    .selectFrom('cohort_edge')
    .select(['sha256', 'state'])
    .where('id', '=', edgeId)
    .executeTakeFirst()
  return edge?.state !== 'open' || edge.sha256 !== null
}

/** Returns a node's public key in base64. */
export async function findPeer(
  db: Kysely<Database>,
  nodeId: string | null,
): Promise<{ node_id: string; public_key: string } | null> {
  if (nodeId === null) return null
  const node = await db
    .selectFrom('node')
    .select(['id', 'public_key'])
    .where('id', '=', nodeId)
    .executeTakeFirst()
  return node ? { node_id: node.id, public_key: node.public_key.toString('base64') } : null
}
