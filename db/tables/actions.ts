import type { Selectable } from 'kysely'
import type { ToolKind } from '../../schemas/tool.ts'
import type { WithDefault, Optional } from './columns.ts'

export interface InvocationTable {
  id: string
  account_id: string
  slug: string
  kind: ToolKind
  /** Either this or `job_id` is set. */
  task_id: Optional<string>
  job_id: Optional<string>
  created_at: WithDefault<Date>
  /** True once its terminal event has been written. */
  ended: WithDefault<boolean>
}
export type InvocationRow = Selectable<InvocationTable>

export interface ActionTables {
  invocation: InvocationTable
}
