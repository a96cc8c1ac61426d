import { createAccount, getAccount, listAccounts, updateAccount } from './accounts.ts'
import { createApiKey, listApiKeys, revokeApiKey } from './api-keys.ts'
import { auditTask } from './audit-task.ts'
import { completeModelImport, startModelImport } from './import-model.ts'
import { activateKillSwitch, deactivateKillSwitch, getKillSwitch } from './kill-switch.ts'
import { getMinWarm, setMinWarm } from './min-warm.ts'
import { createNodeToken } from './node-tokens.ts'
import { overrideLifecycle } from './override-lifecycle.ts'
import { approveEndpoint, listEndpointsForReview, rejectEndpoint } from './review-endpoints.ts'

export const admin = [
  activateKillSwitch,
  deactivateKillSwitch,
  getKillSwitch,
  auditTask,
  createAccount,
  listAccounts,
  getAccount,
  updateAccount,
  createApiKey,
  listApiKeys,
  revokeApiKey,
  createNodeToken,
  startModelImport,
  completeModelImport,
  listEndpointsForReview,
  approveEndpoint,
  rejectEndpoint,
  overrideLifecycle,
  getMinWarm,
  setMinWarm,
]
