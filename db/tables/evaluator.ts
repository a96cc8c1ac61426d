import type { Insertable, Selectable } from 'kysely'
import type {
  Adapter,
  CompatibilityEvidenceRegistration,
  EvidenceStatus,
  FittedMap,
  Metric,
  ModelSpace,
  Relation,
  RevocationEffect,
  SpaceRole,
  SpaceStatus,
  StructuredEvaluationRun,
  StructuredRunStatus,
  Verdict,
} from '../../schemas/cohorts/evaluator.ts'
import type { SpaceKind } from '../../schemas/cohorts/vocabulary.ts'
import type { EvaluationStep } from '../../schemas/evaluation-work.ts'
import type { CreatedAt, WithDefault, Json, NullableJson, Optional } from './columns.ts'

export interface ModelSpaceTable {
  id: string
  version_id: string
  /** The id under which the space was registered: a hub import's, or the version's. */
  model_config_id: string
  generation: number
  name: string
  role: SpaceRole
  kind: SpaceKind
  fingerprint: string
  specification: Json<ModelSpace>
  status: WithDefault<SpaceStatus>
  registered_by: string
  created_at: CreatedAt
}
export type ModelSpaceRow = Selectable<ModelSpaceTable>

/** An evidence registration's adapter, as the platform stores it. */
export type StoredAdapter = Omit<Adapter, 'uri'> & { object_key: string }

export interface CompatibilityEvidenceTable {
  id: string
  source_space_id: string
  target_space_id: string
  source_fingerprint: string
  target_fingerprint: string
  relation: Relation
  metric: Metric
  score: number
  adapter: NullableJson<StoredAdapter>
  /** The registration without its adapter. */
  statement: Json<Omit<CompatibilityEvidenceRegistration, 'adapter'>>
  /** The digest of the registration, which identifies a repeat. */
  digest: string
  status: WithDefault<EvidenceStatus>
  supersedes: Optional<string>
  run_id: Optional<string>
  valid_until: Date
  created_at: CreatedAt
  /** When it was superseded or revoked. */
  ended_at: Optional<Date>
}
export type CompatibilityEvidenceRow = Selectable<CompatibilityEvidenceTable>
export type NewEvidence = Insertable<CompatibilityEvidenceTable>

export interface EvaluatorRevocationTable {
  id: string
  kind: 'model' | 'evidence'
  /** The id of a version or of evidence. */
  subject_id: string
  /** The generation of the model that was revoked; 0 for evidence. */
  generation: number
  effect: RevocationEffect
  reason: string
  evidence_revoked: WithDefault<string[]>
  edges_failed: WithDefault<number>
  cohorts_affected: WithDefault<string[]>
  created_at: CreatedAt
}
export type EvaluatorRevocationRow = Selectable<EvaluatorRevocationTable>

/** A request for a run, with its defaults. */
export type RunRequest = StructuredEvaluationRun & {
  metric: Metric
  anchors: Required<StructuredEvaluationRun['anchors']>
} & Required<
    Pick<StructuredEvaluationRun, 'method' | 'threshold' | 'permutations' | 'resamples' | 'valid_for_days'>
  >

export interface StructuredRunTable {
  id: string
  /** The account that owns the texts. */
  account_id: string
  request: Json<RunRequest>
  source_space_id: string
  target_space_id: string
  /** The versions that produce the vectors, and the one that judges them. */
  source_version_id: string
  target_version_id: string
  consumer_version_id: Optional<string>
  dataset_id: string
  dataset_digest: string
  status: WithDefault<StructuredRunStatus>
  /** The step that a node is working on; only that node may read the run. */
  step: Optional<EvaluationStep>
  step_node_id: Optional<string>
  fit: NullableJson<FittedMap>
  verdict: NullableJson<Verdict>
  /** Codes for why the run was rejected or failed. */
  reasons: Json<string[]>
  evidence_id: Optional<string>
  created_at: CreatedAt
  started_at: Optional<Date>
  completed_at: Optional<Date>
}
export type StructuredRunRow = Selectable<StructuredRunTable>

export interface EvaluatorTables {
  structured_run: StructuredRunTable
  model_space: ModelSpaceTable
  compatibility_evidence: CompatibilityEvidenceTable
  evaluator_revocation: EvaluatorRevocationTable
}
