import type { Insertable, Selectable, Updateable } from 'kysely'
import type { Agreement, Candidate, EdgeOffer } from '../../schemas/cohorts/edge.ts'
import type { EdgeFailure, EdgeState } from '../../schemas/cohorts/vocabulary.ts'
import type { CreatedAt, WithDefault, NullableJson, Optional } from './columns.ts'

export interface CohortEdgeAttemptTable {
  edge_id: string
  attempt: number
  state: WithDefault<EdgeState>
  producer_node_id: Optional<string>
  consumer_node_id: Optional<string>
  producer_offer: NullableJson<EdgeOffer>
  consumer_offer: NullableJson<EdgeOffer>
  agreed: NullableJson<Agreement>
  /** The addresses at which the producer listens. */
  candidates: NullableJson<Candidate[]>
  /** The digest of the key that the producer presents there. */
  spki_sha256: Optional<string>
  ticket_sha256: Optional<string>
  ticket_expires_at: Optional<Date>
  /** The URLs that the consumer probed, with the results. */
  probes: NullableJson<object[]>
  selected: Optional<string>
  session_id: Optional<string>
  /** The last acknowledged frame of a session. */
  acknowledged: Optional<number>
  bytes: Optional<number>
  failure: Optional<EdgeFailure>
  /** The producer holds its payload until this time. */
  hold_until: Optional<Date>
  /** The last call by either side. */
  called_at: WithDefault<Date>
  /** The time since which the consumer has kept calling without any call from the producer. */
  alone_since: Optional<Date>
  opened_at: Optional<Date>
  progress_at: Optional<Date>
  progress_events: WithDefault<number>
  created_at: CreatedAt
}
export type CohortEdgeAttemptRow = Selectable<CohortEdgeAttemptTable>
export type CohortEdgeAttemptUpdate = Updateable<CohortEdgeAttemptTable>

/** A call that has taken effect. */
export interface CohortEdgeCallTable {
  edge_id: string
  attempt: number
  node_id: string
  operation: string
  phase: string
  body_digest: Buffer
  answer: NullableJson<Record<string, unknown>>
  created_at: CreatedAt
}
export type NewCohortEdgeCall = Insertable<CohortEdgeCallTable>

export interface EdgeRateTable {
  from_node_id: string
  to_node_id: string
  ewma_mb_s: Optional<number>
  samples: WithDefault<number>
  /** Until this time, the payloads of a pair that could not connect are sent through the object store. */
  unreachable_until: Optional<Date>
}

export interface CohortEdgeTables {
  cohort_edge_attempt: CohortEdgeAttemptTable
  cohort_edge_call: CohortEdgeCallTable
  edge_rate: EdgeRateTable
}
