/** The API responses that the console shows, under the names that its pages use. */
import type { Static } from 'typebox'
import type { AccountEntry, AccountUsage } from '../../schemas/account.ts'
import type { NodeLogs as NodeLogsSchema } from '../../schemas/nodes/node-logs.ts'
import type { EpochLoss } from '../../schemas/training-run.ts'
import type { WebhookDeliveryDetail, WebhookEndpointWithSecret } from '../../schemas/webhook.ts'

export type { Me } from '../../schemas/account.ts'
export type {
  AccountView as Account,
  KillSwitchStatus as KillSwitch,
  TaskAudit,
} from '../../schemas/admin.ts'
export type { ApiKey, CreateApiKey, KeyLimits } from '../../schemas/api-key.ts'
export type { AuditEntry } from '../../schemas/audit-log.ts'
export type {
  CohortSummary as Cohort,
  EdgeSummary as CohortEdge,
  StageSummary as CohortStage,
} from '../../schemas/cohorts/cohort.ts'
export type { Dataset, DatasetPreview, PreviewValue, StorageFormat } from '../../schemas/dataset.ts'
export type { Endpoint } from '../../schemas/endpoint.ts'
export type { InferenceTask as Task, ListedTask, QueueStats } from '../../schemas/inference-task.ts'
export type { Lineage, Model, ModelUsage, ModelVersion, RegistryEntry } from '../../schemas/model.ts'
export type { HyperparameterSchema } from '../../schemas/model-config.ts'
export type { NodeMemory } from '../../schemas/nodes/node-memory.ts'
export type { NodeDetail, NodeView } from '../../schemas/nodes/node.ts'
export type { Attention, OpenWork, Overview, Queues, WorkItem } from '../../schemas/operations.ts'
export type { Scaling, SetScaling } from '../../schemas/scaling.ts'
export type {
  ArtifactList,
  DataWarning,
  LeftOutColumn,
  RunProgress,
  TrainingRun as Run,
  TrainingRunEvents as RunEvents,
  TrainingRunLogs as RunLogs,
} from '../../schemas/training-run.ts'
export type {
  CreateWebhookEndpoint,
  WebhookDelivery as Delivery,
  WebhookEndpoint,
} from '../../schemas/webhook.ts'

export type JsonSchema = Record<string, unknown>
export type DeliveryDetail = Static<typeof WebhookDeliveryDetail>
export type EndpointWithSecret = Static<typeof WebhookEndpointWithSecret>
export type NodeLogs = Static<typeof NodeLogsSchema>
export type UsageRow = AccountUsage['rows'][number]
export type LedgerEntry = AccountEntry
/** The measures of an epoch depend on the model. */
export type Epoch = EpochLoss & Record<string, number | null | undefined>
