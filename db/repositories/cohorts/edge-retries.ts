import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'
import { EDGE_SECONDS, overdueAs } from '../../../domain/cohorts/edges/deadlines.ts'
import { EDGE_TRANSITIONS, moveEdge } from '../../../domain/cohorts/edges/transitions.ts'
import type { EdgeFailure, EdgeState } from '../../../schemas/cohorts/vocabulary.ts'
import type { Database } from '../../tables.ts'
import type { EdgeFacts } from '../../tables/cohorts.ts'
import { EDGE_FACTS, type LockedCohort } from './cohorts.ts'
import { appendCohortEvents, type NewCohortEvent } from './events.ts'

/** The data that the platform needs to end or repeat an edge's attempt. */
interface EdgeAttemptState extends EdgeFacts {
  is_inline: boolean
  is_offered: boolean
  is_held: boolean
  is_producer_done: boolean
  is_ready: boolean
  ready_at: Date | null
  called_at: Date | null
  alone_since: Date | null
  deadline_at: Date
  now: Date
}

/** Reads edges of open cohorts that are not closed, in the order of their ids. */
async function readEdges(
  db: Kysely<Database>,
  where: RawBuilder<unknown>,
  then: RawBuilder<unknown>,
): Promise<EdgeAttemptState[]> {
  const { rows } = await sql<EdgeAttemptState>`
    select ${sql.join(EDGE_FACTS.map((name) => sql.ref(`edge.${name}`)))}, edge.payload is not null as is_inline, cohort.deadline_at, clock_timestamp() as now, tried.called_at, tried.alone_since,
      tried.producer_offer is not null as is_offered,
      coalesce(tried.hold_until > now(), true) as is_held,
      producer.status = 'succeeded' as is_producer_done,
      greatest(producer.completed_at, consumer.loaded_at) as ready_at,
      producer.completed_at is not null and consumer.loaded_at is not null as is_ready
    from cohort_edge edge
    join cohort on cohort.id = edge.cohort_id
    join cohort_stage producer on producer.id = edge.from_stage_id
    join cohort_stage consumer on consumer.id = edge.to_stage_id
    left join cohort_edge_attempt tried on tried.edge_id = edge.id and tried.attempt = edge.attempt
    where not edge.closed and cohort.status not in ('succeeded', 'failed', 'cancelled') and ${where}
    order by edge.id ${then}`.execute(db)
  return rows
}

const lockEdges = (trx: Transaction<Database>, where: RawBuilder<unknown>): Promise<EdgeAttemptState[]> =>
  readEdges(trx, where, sql`for no key update of edge`)

interface EdgeRetry {
  stageId: string
  /** Nodes that no longer respond: the payloads that they held are lost. */
  lostNodeIds?: readonly string[]
  /** The reason recorded for attempts that are ended. */
  failure: EdgeFailure
}

/**
 * Begins the next attempt at the edges of a stage that must be repeated: its incoming edges, and the outgoing edges for
 * which its last node had made an offer. Payloads in the row, in the object store or on a responsive node are reused;
 * the others are discarded. The caller either has already locked the edges, or has not locked any stage yet. Returns
 * the stages whose payloads are lost, so that they have to run again.
 */
export async function retryEdges(
  trx: Transaction<Database>,
  { stageId, lostNodeIds = [], failure }: EdgeRetry,
): Promise<string[]> {
  const edges = await lockEdges(
    trx,
    sql`(edge.to_stage_id = ${stageId}::uuid or edge.from_stage_id = ${stageId}::uuid)`,
  )
  const lostProducers = new Set<string>()
  const events: NewCohortEvent[] = []
  for (const edge of edges) {
    const isIncoming = edge.to_stage_id === stageId
    // For the outgoing edges, the lost node was the producer.
    const why = !isIncoming && failure === 'consumer_lost' ? 'producer_lost' : failure
    const isStored = isInStore(edge)
    const isLost = edge.payload_node_id !== null && lostNodeIds.includes(edge.payload_node_id)
    const isDropped = edge.failure === 'payload_gone' || !edge.is_held
    const isGone = !isStored && (edge.sha256 === null ? edge.is_producer_done : isLost || isDropped)
    // The producer's next attempt announces its payload again.
    const isRepeated = isIncoming
      ? edge.state !== 'planned'
      : edge.is_offered && !isStored && !hasArrived(edge)
    if (isIncoming && isGone && edge.from_stage_id !== null) lostProducers.add(edge.from_stage_id)
    if (isRepeated) events.push(...(await beginAttempt(trx, edge, why)))
    if (isGone || (isRepeated && !isIncoming)) await forgetPayload(trx, edge)
  }
  const [first] = edges
  if (first) await appendCohortEvents(trx, first.cohort_id, events)
  return [...lostProducers]
}

/** Returns whether the payload is in the row or the object store, so that no node is needed to fetch it. */
const isInStore = (edge: EdgeAttemptState): boolean => edge.is_inline || edge.payload_key !== null

const hasArrived = ({ state }: EdgeFacts) => state === 'transferred' || state === 'consumed'

/**
 * Begins the next attempt at an edge whose producer created a different payload than it announced, because the
 * consumer may have the bytes, or the digest, of the old one.
 */
export async function replacePayload(
  trx: Transaction<Database>,
  edge: AttemptedEdge,
): Promise<NewCohortEvent[]> {
  const events = await beginAttempt(trx, edge, 'payload_gone')
  await forgetPayload(trx, edge)
  return events
}

/** The states in which the consumer knows about the payload but has not consumed it yet. */
const TOLD: readonly EdgeState[] = ['negotiated', 'connecting', 'open', 'transferred']

/** Returns whether a new announcement by the producer needs another attempt. */
export const isReplaced = (
  { state, sha256 }: Pick<EdgeFacts, 'state' | 'sha256'>,
  stated: string | undefined,
): boolean => TOLD.includes(state) && stated !== undefined && sha256 !== null && sha256 !== stated

/** The number of times that the work under one lease may replace a payload that it had announced. */
const MAX_REPLACED = 3

/**
 * Returns whether the work under a lease may replace an edge's payload once more. A producer that never makes the same
 * payload twice would otherwise make the consumer re-fetch it forever without using up an attempt.
 */
export async function mayReplace(
  trx: Transaction<Database>,
  { id, leaseToken }: { id: string; leaseToken: string },
): Promise<boolean> {
  const { rows } = await sql<{ replaced: number }>`
    select count(*)::int as replaced from cohort_edge_attempt tried
    where edge_id = ${id}::uuid and failure = 'payload_gone'
      and created_at >= (select created_at from lease where token = ${leaseToken}::uuid)`.execute(trx)
  return (rows[0]?.replaced ?? 0) < MAX_REPLACED
}

type AttemptedEdge = Pick<EdgeFacts, 'id' | 'attempt' | 'state'>

async function beginAttempt(
  trx: Transaction<Database>,
  edge: AttemptedEdge,
  failure: EdgeFailure,
): Promise<NewCohortEvent[]> {
  const about = { edgeId: edge.id, attempt: edge.attempt }
  const events: NewCohortEvent[] = []
  if (edge.state !== 'failed') {
    await endAttempt(trx, edge, failure)
    events.push({ ...about, type: 'edge.failed', data: { failure } })
  }
  await trx
    .updateTable('cohort_edge')
    .set({
      state: stepTo('failed', 'retry'),
      attempt: edge.attempt + 1,
      failure: null,
      transport: null,
      transfer_ms: null,
      consumed_at: null,
    })
    .where('id', '=', edge.id)
    .execute()
  return [...events, { ...about, attempt: edge.attempt + 1, type: 'edge.retried' }]
}

/** Ends an attempt that has not failed yet. */
export async function endAttempt(
  trx: Transaction<Database>,
  { id, attempt, state }: AttemptedEdge,
  failure: EdgeFailure,
): Promise<void> {
  const ended = { state: stepTo(state, state === 'consumed' ? 'lose' : 'fail'), failure }
  await trx.updateTable('cohort_edge').set(ended).where('id', '=', id).execute()
  await trx
    .updateTable('cohort_edge_attempt')
    .set(ended)
    .where('edge_id', '=', id)
    .where('attempt', '=', attempt)
    .execute()
}

/**
 * Ends the locked edges of a cohort that is ending, together with their attempts in progress, so that nothing more is
 * handed over. Returns the events of those attempts; an edge without a call has none. Safe to repeat: an ended edge
 * stays as it is.
 */
export async function cancelEdges(
  trx: Transaction<Database>,
  cohortId: string,
  locked: LockedCohort['edges'],
): Promise<NewCohortEvent[]> {
  if (locked.length === 0) return []
  const { from, to } = EDGE_TRANSITIONS.fail
  const failure: EdgeFailure = 'cancelled'
  const ended = { state: to, failure }
  const atWork = locked.filter(({ state }) => from.includes(state))
  if (atWork.length > 0) {
    const ids = sql<string>`any(${atWork.map(({ id }) => id)}::uuid[])`
    await trx
      .updateTable('cohort_edge_attempt as tried')
      .from('cohort_edge as edge')
      .set(ended)
      .whereRef('edge.id', '=', 'tried.edge_id')
      .whereRef('edge.attempt', '=', 'tried.attempt')
      .where('edge.id', '=', ids)
      .execute()
    await trx.updateTable('cohort_edge').set(ended).where('id', '=', ids).execute()
  }
  await trx
    .updateTable('cohort_edge')
    .set({ closed: true, payload: null })
    .where('cohort_id', '=', cohortId)
    .execute()
  return atWork
    .filter(({ state }) => state !== 'planned')
    .map(({ id, attempt }) => ({ type: 'edge.failed', edgeId: id, attempt, data: { failure } }))
}

/** Returns the state after a step by the platform; throws if the state table does not allow the step. */
function stepTo(state: EdgeState, move: 'fail' | 'lose' | 'retry'): EdgeState {
  const outcome = moveEdge({ state, move, by: 'platform' })
  if ('to' in outcome) return outcome.to
  throw new Error(`an edge that is ${state} cannot ${move}`)
}

const forgetPayload = (trx: Transaction<Database>, { id }: Pick<EdgeFacts, 'id'>) =>
  trx
    .updateTable('cohort_edge')
    .set({
      payload: null,
      payload_key: null,
      payload_node_id: null,
      size_bytes: null,
      sha256: null,
      shape: null,
      dtype: null,
      encoding: null,
    })
    .where('id', '=', id)
    .execute()

/** The number of edges that are read at once; further ones are found once these have failed. */
const MAX_EDGES = 500

/** Finds open cohorts with attempts that have timed out but have not been ended yet. */
export async function findOverdueCohorts(db: Kysely<Database>): Promise<string[]> {
  const isReady = sql`producer.completed_at is not null and consumer.loaded_at is not null`
  const readyAt = sql`case when ${isReady} then greatest(producer.completed_at, consumer.loaded_at) end`
  const before = (seconds: number) => sql`now() - make_interval(secs => ${seconds})`
  // No attempt times out before both sides are ready or bytes flow, so few edges are read: most wait for their
  // producer. The deadlines match `deadlineOf`: an edge that is read but has not timed out, such as one with a long
  // transfer, would take the place of one that has. The consumer's states match those of an index.
  const edges = await readEdges(
    db,
    sql`consumer.status in ('loading', 'waiting', 'running') and edge.state not in ('consumed', 'failed')
      and (${isReady} or edge.state = 'transferred' or (edge.state = 'open' and edge.sha256 is not null))
      and (cohort.deadline_at <= now() or case
        when edge.state in ('planned', 'negotiating') then ${readyAt} < ${before(EDGE_SECONDS.negotiate)}
        else coalesce(tried.called_at, ${readyAt}) < case edge.state
          when 'open' then case when edge.sha256 is not null then ${before(EDGE_SECONDS.silence)} end
          when 'transferred' then ${before(EDGE_SECONDS.consume)}
          else ${before(EDGE_SECONDS.connect)} end end)`,
    sql`limit ${MAX_EDGES}`,
  )
  return [...new Set(edges.filter(failureOf).map(({ cohort_id }) => cohort_id))]
}

/** Ends a cohort's attempts that have timed out; returns the edges whose attempts have failed by now. */
export async function expireEdges(
  trx: Transaction<Database>,
  cohortId: string,
): Promise<{ edgeId: string; stageId: string; failure: EdgeFailure }[]> {
  const edges = await lockEdges(
    trx,
    sql`edge.cohort_id = ${cohortId}::uuid and edge.state <> 'consumed' and consumer.status <> 'pending'`,
  )
  const failed = []
  const events: NewCohortEvent[] = []
  for (const edge of edges) {
    const failure = edge.failure ?? failureOf(edge)
    if (!failure) continue
    if (edge.state !== 'failed') {
      await endAttempt(trx, edge, failure)
      events.push({ type: 'edge.failed', edgeId: edge.id, attempt: edge.attempt, data: { failure } })
    }
    failed.push({ edgeId: edge.id, stageId: edge.to_stage_id, failure })
  }
  await appendCohortEvents(trx, cohortId, events)
  return failed
}

const failureOf = (edge: EdgeAttemptState): EdgeFailure | undefined =>
  overdueAs(
    {
      state: edge.state,
      // A consumer may never have called, because the platform itself writes values into the row.
      calledAt: edge.called_at ?? (edge.is_ready ? edge.ready_at : null) ?? edge.now,
      readyAt: edge.is_ready ? edge.ready_at : null,
      aloneSince: edge.alone_since,
      isOffered: edge.is_offered,
      isStated: edge.sha256 !== null,
      isStored: isInStore(edge),
      latest: edge.deadline_at,
    },
    edge.now,
  )
