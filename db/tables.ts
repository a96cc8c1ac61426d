import type { AccountTables } from './tables/accounts.ts'
import type { ActionTables } from './tables/actions.ts'
import type { CohortEdgeTables } from './tables/cohort-edges.ts'
import type { CohortTables } from './tables/cohorts.ts'
import type { DatasetTables } from './tables/datasets.ts'
import type { EvaluatorTables } from './tables/evaluator.ts'
import type { HubTables } from './tables/hub.ts'
import type { InferenceTables } from './tables/inference.ts'
import type { MemoryTables } from './tables/memory.ts'
import type { MergeTables } from './tables/merges.ts'
import type { ModelTables } from './tables/models.ts'
import type { NodeTables } from './tables/nodes.ts'
import type { ToolTables } from './tables/tools.ts'
import type { TrainingTables } from './tables/training.ts'
import type { WebhookTables } from './tables/webhooks.ts'

/** Every table, as kysely sees it. The SQL is in `migrations/`. */
export interface Database
  extends
    AccountTables,
    ActionTables,
    CohortTables,
    CohortEdgeTables,
    DatasetTables,
    NodeTables,
    TrainingTables,
    ModelTables,
    MemoryTables,
    MergeTables,
    EvaluatorTables,
    InferenceTables,
    HubTables,
    ToolTables,
    WebhookTables {}
