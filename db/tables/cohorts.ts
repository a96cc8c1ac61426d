import type { Insertable, Selectable } from 'kysely'
import type { GraphOutline, SpecOutline } from '../../domain/cohorts/outline.ts'
import type { StageFile } from '../../domain/cohorts/stages/files.ts'
import type {
  CohortEventType,
  CohortState,
  Dtype,
  EdgeFailure,
  EdgeMode,
  EdgeState,
  SpaceKind,
  StageState,
  Transport,
} from '../../schemas/cohorts/vocabulary.ts'
import type { CreatedAt, WithDefault, Json, NullableJson, Optional } from './columns.ts'

type JsonObject = Record<string, unknown>

export interface CohortPlanTable {
  id: string
  account_id: string
  request: Json<JsonObject>
  plan: Json<JsonObject>
  feasible: boolean
  expires_at: Date
  created_at: CreatedAt
}

/** Why a cohort or stage failed: a code for programs and a sentence for people. */
export interface CohortFault {
  code: string
  message: string
  stage_id?: string
  edge_id?: string
}

export interface CohortTable {
  id: string
  task_id: string
  account_id: string
  user_id: string
  plan_id: string
  name: Optional<string>
  request: Json<JsonObject>
  /** The small part of `request`; null in rows of older versions. */
  outline: NullableJson<GraphOutline>
  status: WithDefault<CohortState>
  input: Json<JsonObject>
  labels: Json<Record<string, string>>
  keep_outputs: WithDefault<boolean>
  /** The cohort whose finished stages are reused. */
  resume_of: Optional<string>
  deadline_at: Date
  estimated_latency_ms: number
  critical_path: Json<string[]>
  replans: WithDefault<number>
  error: NullableJson<CohortFault>
  /** The number of its last event. */
  event_sequence: WithDefault<number>
  created_at: CreatedAt
  started_at: Optional<Date>
  completed_at: Optional<Date>
}
export type CohortRow = Selectable<CohortTable>
/** A cohort without its graph and its input, which may be several megabytes. */
export type CohortFacts = Omit<CohortRow, 'request' | 'input' | 'labels' | 'outline'> & {
  /** The outline of `request`; the whole request for rows of older versions. */
  outline: GraphOutline
}
export type NewCohort = Insertable<CohortTable>

export interface CohortStageTable {
  /** The subject of its leases and of its ledger entries. */
  id: string
  cohort_id: string
  account_id: string
  /** The name of the stage in its graph. */
  name: string
  /** The stage's position in a topological order. */
  position: number
  specification: Json<JsonObject>
  /** The small part of `specification`; null in rows of older versions. */
  outline: NullableJson<SpecOutline>
  endpoint_id: string
  model_key: string
  price_micro: number
  /** 0 for its own endpoint, else the number of the fallback. */
  fallback: WithDefault<number>
  status: WithDefault<StageState>
  attempt: WithDefault<number>
  node_id: Optional<string>
  planned_node_id: Optional<string>
  model_state: Optional<'resident' | 'cached' | 'cold'>
  called_at: Optional<Date>
  claimed_at: Optional<Date>
  loaded_at: Optional<Date>
  started_at: Optional<Date>
  completed_at: Optional<Date>
  /** When its workflow was last notified that its call is taking too long. */
  overdue_at: Optional<Date>
  waiting_for: Optional<string>
  run_ms: Optional<number>
  /** Null if its model does not count tokens. */
  tokens_in: Optional<number>
  tokens_out: Optional<number>
  result: Optional<Buffer>
  /** The files of its result, which refers to them by address. */
  outputs: NullableJson<StageFile[]>
  output_kept: WithDefault<boolean>
  error: NullableJson<CohortFault>
  /** The account that was paid for the attempt that counted. */
  paid_to: Optional<string>
  /** The stage for which a node produced the result that this one reuses. */
  taken_from: Optional<string>
}
export type CohortStageRow = Selectable<CohortStageTable>
/** A stage without its files and without its input and result, which may be several megabytes. */
export type StageFacts = Omit<
  CohortStageRow,
  'specification' | 'outline' | 'result' | 'outputs' | 'overdue_at'
> & {
  /** The outline of `specification`; all of it for rows of older versions. */
  outline: SpecOutline
}
export type NewCohortStage = Insertable<CohortStageTable>

export interface CohortEdgeTable {
  id: string
  cohort_id: string
  name: string
  /** Null if the value comes from the run's input. */
  from_stage_id: Optional<string>
  from_path: string
  to_stage_id: string
  to_path: string
  template: Optional<string>
  kind: SpaceKind
  mode: WithDefault<EdgeMode>
  /** The transports that the graph allows; null for all. */
  transports: NullableJson<Transport[]>
  max_bytes: number
  source_space_id: Optional<string>
  target_space_id: Optional<string>
  source_fingerprint: string
  target_fingerprint: string
  evidence_id: Optional<string>
  min_score: number
  state: WithDefault<EdgeState>
  attempt: WithDefault<number>
  failure: Optional<EdgeFailure>
  transport: Optional<Transport>
  /** An inline payload. This column and those after it outlive attempts. */
  payload: Optional<Buffer>
  /** The object of a relayed payload. */
  payload_key: Optional<string>
  /** The node that holds the payload. */
  payload_node_id: Optional<string>
  encoding: Optional<string>
  size_bytes: Optional<number>
  sha256: Optional<string>
  shape: NullableJson<number[]>
  dtype: Optional<Dtype>
  transfer_ms: Optional<number>
  /** True when no payload will come: its producer was skipped, or its consumer no longer needs it. */
  closed: WithDefault<boolean>
  consumed_at: Optional<Date>
}
export type CohortEdgeRow = Selectable<CohortEdgeTable>
/** A hand-over without its payload and its template; the templates of a stage's edges may be several megabytes. */
export type EdgeFacts = Omit<CohortEdgeRow, 'payload' | 'template'>
export type NewCohortEdge = Insertable<CohortEdgeTable>

export interface CohortEventTable {
  id: string
  cohort_id: string
  /** Its number among the events of its cohort, without gaps. */
  sequence: number
  type: CohortEventType
  stage_name: Optional<string>
  edge_id: Optional<string>
  node_id: Optional<string>
  attempt: Optional<number>
  data: Json<JsonObject>
  created_at: CreatedAt
}
export type CohortEventRow = Selectable<CohortEventTable>

export interface CohortTables {
  cohort_plan: CohortPlanTable
  cohort: CohortTable
  cohort_stage: CohortStageTable
  cohort_edge: CohortEdgeTable
  cohort_event: CohortEventTable
}
