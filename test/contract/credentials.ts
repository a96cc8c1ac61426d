import type { Role } from '../../api/http/caller.ts'

/** The least credential that a route accepts. `signed-url` is checked by the route itself. */
export type Credential =
  | Role
  | 'none'
  | 'operations-key'
  | 'node-signature'
  | 'join-token'
  | 'evaluator-token'
  | 'cohort'
  | 'signed-url'

/**
 * The credential that each operation requires, listed apart from the routes: a route that is
 * missing here fails the test.
 */
export const CREDENTIALS: Readonly<Record<string, Credential>> = {
  getHealth: 'none',
  getInferenceHealth: 'none',
  getCapabilities: 'none',
  getOpenApi: 'none',
  getDocs: 'none',
  getDocsFile: 'none',
  getDocsFolder: 'none',

  serveMcp: 'viewer',
  getProtectedResource: 'none',

  getObject: 'signed-url',
  putObject: 'signed-url',

  uploadDataset: 'operator',
  createDataset: 'operator',
  initUpload: 'operator',
  commitUpload: 'operator',
  listDatasets: 'viewer',
  getDataset: 'viewer',
  deleteDataset: 'admin',
  deleteModel: 'admin',
  deleteModelVersion: 'admin',

  listModelConfigs: 'none',
  getModelConfig: 'none',
  getModelConfigSchema: 'none',
  createTrainingRun: 'operator',
  createTrainingMerge: 'operator',
  listTrainingRuns: 'viewer',
  getTrainingRun: 'viewer',
  deleteTrainingRun: 'admin',
  getTrainingRunLogs: 'viewer',
  getTrainingRunMetrics: 'viewer',
  getTrainingRunEvents: 'viewer',
  cancelTrainingRun: 'operator',
  listArtifacts: 'viewer',
  signDownloads: 'viewer',
  registerForInference: 'operator',

  searchHub: 'viewer',
  getHubModel: 'viewer',
  registerHubModel: 'operator',
  listRegistry: 'viewer',
  changeLifecycle: 'admin',
  createModel: 'operator',
  listModels: 'viewer',
  getModel: 'viewer',
  listModelVersions: 'viewer',
  updateModelVersion: 'operator',
  getModelLineage: 'viewer',

  listInferenceModels: 'none',
  listEndpoints: 'viewer',
  getEndpoint: 'viewer',
  updateEndpoint: 'admin',
  deleteEndpoint: 'admin',
  infer: 'operator',
  inferAsync: 'operator',
  uploadInput: 'operator',
  getTask: 'viewer',
  listActions: 'viewer',
  getAction: 'viewer',
  invokeAction: 'operator',
  getInvocation: 'viewer',
  cancelTask: 'operator',
  getQueueStats: 'viewer',

  getManifest: 'viewer',
  getToolManifest: 'viewer',

  createChatCompletion: 'operator',
  listChatModels: 'viewer',
  getChatModel: 'viewer',

  listEndpointsForReview: 'operations-key',
  approveEndpoint: 'operations-key',
  rejectEndpoint: 'operations-key',
  overrideLifecycle: 'operations-key',
  getMinWarm: 'operations-key',
  setMinWarm: 'operations-key',
  activateKillSwitch: 'operations-key',
  deactivateKillSwitch: 'operations-key',
  getKillSwitch: 'operations-key',
  auditTask: 'operations-key',
  createAccount: 'operations-key',
  listAccounts: 'operations-key',
  getAccount: 'operations-key',
  updateAccount: 'operations-key',
  createApiKey: 'operations-key',
  listApiKeys: 'operations-key',
  revokeApiKey: 'operations-key',
  createNodeToken: 'operations-key',
  startModelImport: 'operations-key',
  completeModelImport: 'operations-key',
  listNodes: 'operations-key',
  drainNode: 'operations-key',
  resumeNode: 'operations-key',
  shareNode: 'operations-key',
  dedicateNode: 'operations-key',
  removeNode: 'operations-key',

  joinNode: 'join-token',
  issueTemporalCredential: 'node-signature',
  getNodeModel: 'node-signature',
  getNodeModelExpectation: 'node-signature',
  claimTask: 'node-signature',
  claimTaskAtRoot: 'node-signature',
  readTaskInput: 'signed-url',
  getHubFile: 'signed-url',
  claimJob: 'node-signature',
  renewLease: 'node-signature',
  signLeaseUrls: 'node-signature',
  registerCheckpoint: 'node-signature',
  completeLease: 'node-signature',
  failLease: 'node-signature',

  createWebhookEndpoint: 'admin',
  listWebhookEndpoints: 'viewer',
  getWebhookEndpoint: 'viewer',
  updateWebhookEndpoint: 'admin',
  deleteWebhookEndpoint: 'admin',
  rotateWebhookSecret: 'admin',
  testWebhookEndpoint: 'operator',
  listWebhookDeliveries: 'viewer',
  getWebhookDelivery: 'viewer',
  redeliverWebhook: 'operator',
}
