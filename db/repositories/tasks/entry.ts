import { CompiledQuery } from 'kysely'
import type { TokenCounts } from '../../../domain/chat/chat.ts'
import type { Transfer } from '../../../domain/ledger.ts'
import { storable } from '../../../domain/storable-text.ts'
import { bareArray, bytesOrNull, textsOrNull } from '../../array-params.ts'
import type { Executor } from '../../prepared-pool.ts'
import type { InvocationRow } from '../../tables/actions.ts'
import type { TaskRow } from '../../tables/inference.ts'
import type { EventForm } from '../webhooks/events.ts'

/** The ledger lines and the event that are written together with a task or its end. */
export interface TaskEffects {
  readonly transfers: readonly Transfer[]
  readonly event: EventForm | undefined
}

export type TemplateColumn =
  | 'account_id'
  | 'endpoint_id'
  | 'status'
  | 'surface'
  | 'model_key'
  | 'model_state'
  | 'price_micro'
  | 'node_id'
  | 'gateway_id'
  | 'key_id'

/** The columns and effects that many tasks share: tasks that hold the same object are written with one copy of it. */
export interface TaskTemplate extends Readonly<Pick<TaskRow, TemplateColumn>>, TaskEffects {}

/** The invocation of an action whose work a task does. */
export type NewInvocation = Pick<InvocationRow, 'id' | 'slug' | 'kind'>

/** A task's row as it is inserted. */
export interface TaskEntry extends Pick<
  TaskRow,
  'id' | 'input' | 'result' | 'error' | 'inference_time_ms' | 'created_at' | 'started_at' | 'completed_at'
> {
  template: TaskTemplate
  /** Tokens that a language model reported, for a task that has ended. */
  tokens: TokenCounts
  invocation?: NewInvocation | undefined
}

/** The end of a task. */
export interface Settlement {
  taskId: string
  status: 'succeeded' | 'failed'
  result: Buffer | null
  error: string | null
  expired: boolean
  /** Null leaves the row's value unchanged. */
  modelState: TaskRow['model_state']
  nodeId: string | null
  inferenceTimeMs: number | null
  completedAt: Date
  /** Settlements with the same effects share one object. */
  effects: TaskEffects
  /** Tokens that a language model reported. */
  tokens: TokenCounts
}

/** The columns that differ from task to task, one array per column, in the order of `FRESH_COLUMNS`. */
export const freshParameters = (entries: readonly TaskEntry[]): unknown[] => [
  bareArray(entries.map(({ id }) => id)),
  bareArray(entries.map((entry) => entry.created_at.getTime())),
  bareArray(entries.map((entry) => entry.started_at?.getTime() ?? null)),
  bareArray(entries.map((entry) => entry.completed_at?.getTime() ?? null)),
  bareArray(entries.map((entry) => entry.inference_time_ms)),
  bareArray(entries.map(({ tokens }) => tokens.in)),
  bareArray(entries.map(({ tokens }) => tokens.out)),
  bytesOrNull(entries.map(({ input }) => input)),
  bytesOrNull(entries.map(({ result }) => result)),
  textsOrNull(entries.map(({ error }) => error && storable(error))),
]
export const FRESH_COLUMNS =
  'id, created_ms, started_ms, completed_ms, inference_time_ms, tokens_in, tokens_out, input, result, error'

/** An SQL expression for a token count column of `given`; null for a model that doesn't count tokens. */
export const countedOf = (given: string, column: 'tokens_in' | 'tokens_out'): string =>
  `case when ${given}.tokens_in + ${given}.tokens_out > 0 then ${given}.${column} end`

/**
 * An SQL expression for an event's frozen payload, built from its form and the columns `event_id`, `id` and `at`;
 * `more` are columns for further values of the form.
 */
export const payloadOf = (form: string, ...more: string[]): string =>
  `convert_to(format(${[form, 'event_id', 'id', AT, ...more].join(', ')}), 'UTF8')`
const AT = `to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

/** Runs a statement whose text is constant (see `PreparedPool`) and returns the number of rows written. */
export async function runWrite(db: Executor, statement: string, parameters: unknown[]): Promise<number> {
  const query = CompiledQuery.raw(statement, parameters) as CompiledQuery<{ written: number }>
  const { rows } = await db.executeQuery(query)
  return rows[0]?.written ?? 0
}
