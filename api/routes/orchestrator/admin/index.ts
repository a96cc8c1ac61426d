import { createAccount } from './accounts/create-account.ts'
import { getAccountLedger } from './accounts/get-account-ledger.ts'
import { getAccountUsage } from './accounts/get-account-usage.ts'
import { getAccount } from './accounts/get-account.ts'
import { giveAccountCredits } from './accounts/give-account-credits.ts'
import { listAccounts } from './accounts/list-accounts.ts'
import { updateAccount } from './accounts/update-account.ts'
import { createApiKey } from './api-keys/create-api-key.ts'
import { findApiKeys } from './api-keys/find-api-keys.ts'
import { listApiKeys } from './api-keys/list-api-keys.ts'
import { revokeApiKey } from './api-keys/revoke-api-key.ts'
import { updateApiKey } from './api-keys/update-api-key.ts'
import { listAuditLog } from './audit-log/list-audit-log.ts'
import { auditTask } from './audit-task.ts'
import { createNodeToken } from './create-node-token.ts'
import { approveEndpoint } from './endpoint-reviews/approve-endpoint.ts'
import { listEndpointsForReview } from './endpoint-reviews/list-endpoints-for-review.ts'
import { rejectEndpoint } from './endpoint-reviews/reject-endpoint.ts'
import { explainPlacement } from './explain-placement.ts'
import { getOverview } from './get-overview.ts'
import { getQueues } from './get-queues.ts'
import { getSettings } from './get-settings.ts'
import { activateKillSwitch } from './kill-switch/activate-kill-switch.ts'
import { deactivateKillSwitch } from './kill-switch/deactivate-kill-switch.ts'
import { getKillSwitch } from './kill-switch/get-kill-switch.ts'
import { listKillSwitchHistory } from './kill-switch/list-kill-switch-history.ts'
import { listLoadedModels } from './list-loaded-models.ts'
import { memoryAdmin } from './memory/index.ts'
import { getMinWarm } from './min-warm/get-min-warm.ts'
import { setMinWarm } from './min-warm/set-min-warm.ts'
import { completeModelImport } from './model-imports/complete-model-import.ts'
import { startModelImport } from './model-imports/start-model-import.ts'
import { evictNodeModel } from './node-models/evict-node-model.ts'
import { loadNodeModel } from './node-models/load-node-model.ts'
import { overrideLifecycle } from './override-lifecycle.ts'
import { getPlatformUsage } from './platform/get-platform-usage.ts'
import { getWebhookBacklog } from './platform/get-webhook-backlog.ts'
import { listGateways } from './platform/list-gateways.ts'
import { listWorkers } from './platform/list-workers.ts'
import { streamPlatformEvents } from './platform/stream-platform-events.ts'
import { addTool } from './tools/add-tool.ts'
import { listTools } from './tools/list-tools.ts'
import { removeTool } from './tools/remove-tool.ts'
import { cancelAccountRun } from './work/cancel-account-run.ts'
import { cancelAccountTask } from './work/cancel-account-task.ts'
import { listOpenWork } from './work/list-open-work.ts'

export const admin = [
  getOverview,
  getQueues,
  listOpenWork,
  cancelAccountRun,
  cancelAccountTask,
  listLoadedModels,
  loadNodeModel,
  evictNodeModel,
  listGateways,
  listWorkers,
  getWebhookBacklog,
  getPlatformUsage,
  streamPlatformEvents,
  getSettings,
  explainPlacement,
  activateKillSwitch,
  deactivateKillSwitch,
  getKillSwitch,
  listKillSwitchHistory,
  auditTask,
  listAuditLog,
  createAccount,
  listAccounts,
  getAccount,
  getAccountUsage,
  getAccountLedger,
  giveAccountCredits,
  updateAccount,
  createApiKey,
  listApiKeys,
  findApiKeys,
  revokeApiKey,
  updateApiKey,
  createNodeToken,
  startModelImport,
  completeModelImport,
  listEndpointsForReview,
  approveEndpoint,
  rejectEndpoint,
  overrideLifecycle,
  getMinWarm,
  setMinWarm,
  addTool,
  listTools,
  removeTool,
  ...memoryAdmin,
]
