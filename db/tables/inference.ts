import type { Generated, Insertable, Selectable } from 'kysely'
import type { LedgerKind } from '../../domain/ledger.ts'
import type { ModelState, TaskStatus, TaskSurface } from '../../schemas/inference-task.ts'
import type { Modality } from '../../schemas/nodes/lease.ts'
import type { CreatedAt, WithDefault, NullableJson, Optional } from './columns.ts'

export interface TaskTable {
  id: string
  account_id: string
  endpoint_id: string
  status: TaskStatus
  status_detail: NullableJson<{ status: string; progress_pct: number; metadata: Record<string, unknown> }>
  /** An API surface, or `cohort` for a task that represents a cohort's run. */
  surface: TaskSurface | 'cohort'
  model_key: string
  model_state: Optional<ModelState>
  input: Optional<Buffer>
  result: Optional<Buffer>
  /** The files of the result. */
  outputs: NullableJson<TaskOutputFile[]>
  error: Optional<string>
  expired: WithDefault<boolean>
  price_micro: WithDefault<number>
  node_id: Optional<string>
  gateway_id: Optional<string>
  attempt: WithDefault<number>
  inference_time_ms: Optional<number>
  created_at: WithDefault<Date>
  started_at: Optional<Date>
  completed_at: Optional<Date>
  /** The time since which the task has been waiting for a node; valid only while it is `queued`. */
  waiting_since: Optional<Date>
  /** The time at which its workflow was last signalled that a node has capacity. */
  woken_at: Optional<Date>
  /** The key that requested the task. */
  key_id: Optional<string>
  /** The token counts of a language model. */
  tokens_in: Optional<number>
  tokens_out: Optional<number>
}
export type TaskRow = Selectable<TaskTable>
export type NewTask = Insertable<TaskTable>

/** A file of a task's result, as it is stored. */
export interface TaskOutputFile {
  filename: string
  object_key: string
  content_type: string
  size_bytes: number
  modality: Modality
  /** The string that refers to the file in a cohort's result. Results of other tasks do not name their files. */
  address?: string
}

/** A task with upload URLs that were signed for its lease. */
export interface TaskUploadTable {
  task_id: string
  account_id: string
  /** The expiry of the last URL; nothing can be PUT later. */
  signed_until: Date
  /** The time at which files that the task does not need were removed. */
  swept_at: Optional<Date>
}

export interface LedgerTransferTable {
  task_id: string
  kind: LedgerKind
  /** `account:<id>`, `escrow`, `platform` or `owner:<account id>`. */
  from_purse: string
  to_purse: string
  amount_micro: number
  created_at: WithDefault<Date>
}

/** A view with both sides of every transfer, and entries from before transfers existed. */
export interface LedgerLineView {
  /** Unique within its task. */
  id: string
  task_id: string
  kind: LedgerKind
  purse: string
  amount_micro: number
  created_at: Date
}
export type LedgerLineRow = Selectable<LedgerLineView>

export interface UsageDeltaTable {
  id: Generated<number>
  account_id: string
  endpoint_id: string
  enqueued: WithDefault<number>
  succeeded: WithDefault<number>
  failed: WithDefault<number>
  expired: WithDefault<number>
  tokens: WithDefault<number>
  /** The total inference time of the tasks that succeeded. */
  inference_ms: WithDefault<number>
  /** The key that requested the tasks. */
  key_id: Optional<string>
  /** The cost of the tasks; negative for refunds. */
  cost_micro: WithDefault<number>
  created_at: WithDefault<Date>
}

export interface UsageTotalTable {
  account_id: string
  enqueued: WithDefault<number>
  succeeded: WithDefault<number>
  failed: WithDefault<number>
  expired: WithDefault<number>
}

export interface UploadedInputTable {
  id: string
  account_id: string
  object_key: string
  content_type: string
  size_bytes: number
  created_at: CreatedAt
}

export interface InferenceTables {
  task: TaskTable
  ledger_transfer: LedgerTransferTable
  ledger_line: LedgerLineView
  usage_delta: UsageDeltaTable
  usage_total: UsageTotalTable
  uploaded_input: UploadedInputTable
  task_upload: TaskUploadTable
}
