import { accountTools } from './account-tools.ts'
import { mergeModels } from './prompts/merge-models.ts'
import type { Prompt } from './prompts/prompt.ts'
import { trainOnTable } from './prompts/train-on-table.ts'
import { datasetRows } from './resources/dataset-rows.ts'
import type { ResourceKind } from './resources/kind.ts'
import { runLogs, runMetrics } from './resources/runs.ts'
import { inferenceTasks } from './tasks/inference-tasks.ts'
import { invocationTasks } from './tasks/invocation-tasks.ts'
import type { TaskKind } from './tasks/kinds.ts'
import type { ToolList } from './tool-list.ts'
import type { AccountRequestContext } from './tool.ts'

/** The tools, tasks, resources and prompts that the server offers to an account. */
export interface Offer {
  toolsOf(on: AccountRequestContext): ToolList | Promise<ToolList>
  readonly taskKinds: readonly TaskKind[]
  readonly resources: readonly ResourceKind[]
  readonly prompts: readonly Prompt[]
}

/** The offer of every gateway. */
export const OFFER: Offer = {
  toolsOf: accountTools,
  taskKinds: [inferenceTasks, invocationTasks],
  resources: [runLogs, runMetrics, datasetRows],
  prompts: [trainOnTable, mergeModels],
}
