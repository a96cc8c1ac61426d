import { randomUUID } from 'node:crypto'
import { newId } from '../../domain/ids.ts'
import { newNodeKey, privateKeyFromPem, rawPublicKey } from '../../platform/signing.ts'
import { buildEndpoint, buildRun, buildVersion } from '../support/builders/build-endpoint.ts'
import { enableMemory, keyIdOf, callAdmin } from '../support/builders/memory.ts'
import { addLlmVersion, versionRef } from '../support/builders/models/merges.ts'
import { createRun, readyDataset } from '../support/builders/training.ts'
import { WEBHOOK_BODY } from '../support/builders/webhook-routes.ts'
import { type Call, OPERATIONS_KEY, startApi, type TestApi } from '../support/servers/api.ts'
import { addModel, startNode, type TestNode } from '../support/servers/nodes/node.ts'
import { type SignedNode, signedNode } from '../support/servers/nodes/signed-node.ts'

/** A call to an operation: values for its path, and the rest of the request. */
interface OperationCall extends Call {
  params?: Record<string, string>
  /** Appended to the path. */
  query?: string
}

/** Returns a call that succeeds, with its own rows and names. */
type MakeCall = () => Promise<OperationCall> | OperationCall

/** Rows that all calls may refer to, because no call changes them. */
interface SharedResources {
  datasetId: string
  endpointId: string
  keyId: string
  planId: string
  mergeable: string[]
}

const QUOTA = 100_000

/** An account with everything that a mutating operation may refer to. */
export class ParallelWorld implements AsyncDisposable {
  readonly api: TestApi
  readonly #node: TestNode
  readonly #remote: SignedNode
  readonly #caller: { accountId: string; key: string }
  readonly #modelKey: string
  readonly #shared: SharedResources

  private constructor(parts: {
    api: TestApi
    node: TestNode
    remote: SignedNode
    caller: { accountId: string; key: string }
    modelKey: string
    shared: SharedResources
  }) {
    this.api = parts.api
    this.#node = parts.node
    this.#remote = parts.remote
    this.#caller = parts.caller
    this.#modelKey = parts.modelKey
    this.#shared = parts.shared
  }

  static async start(): Promise<ParallelWorld> {
    await using stack = new AsyncDisposableStack()
    const api = stack.use(
      await startApi({
        env: {
          HEARTH_FEATURES: 'webhooks',
          HEARTH_MEMORY: '1',
          HEARTH_RATE_LIMIT: '0',
          HEARTH_ADDRESS_RATE: '0',
          HEARTH_WEBHOOK_DESTINATIONS: '1000',
        },
      }),
    )
    const node = stack.use(await startNode(api))
    const { db } = api.database
    const caller = await api.account()
    const quotas = { training_quota: QUOTA, task_quota: QUOTA }
    await db.updateTable('account').set(quotas).where('id', '=', caller.accountId).execute()
    await enableMemory(api, caller)
    const modelKey = await addModel(api, { name: 'echo' })
    await node.parts.models.load(modelKey)
    const endpointId = await endpointOver(api, caller.accountId, modelKey)
    const plan = await api.call('POST', '/api/v1/cohorts:plan', {
      key: caller.key,
      headers: { 'x-account-id': caller.accountId, 'x-user-id': 'u' },
      body: { stages: [{ stage_id: 'a', endpoint_id: endpointId, input: { instances: [1] } }], edges: [] },
    })
    if (!plan.body.feasible) throw new Error(plan.text)
    const shared = {
      datasetId: await readyDataset(api, caller.accountId),
      endpointId,
      keyId: await keyIdOf(api, caller.key),
      planId: String(plan.body.plan_id),
      mergeable: [
        await addLlmVersion(api, caller.accountId, { model: {} }),
        await addLlmVersion(api, caller.accountId, { model: {} }),
      ],
    }
    const remote = await signedNode(api, 'remote', { accountId: caller.accountId })
    const world = new ParallelWorld({ api, node, remote, caller, modelKey, shared })
    stack.move()
    return world
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#node[Symbol.asyncDispose]()
    await this.api[Symbol.asyncDispose]()
  }

  /** Calls that succeed, by operation; an operation without one is called with ids that don't exist. */
  get calls(): Readonly<Record<string, MakeCall>> {
    const { accountId, key } = this.#caller
    const { datasetId, endpointId, keyId, planId, mergeable } = this.#shared
    const { db } = this.api.database
    const own = { key }
    const operator = { key: OPERATIONS_KEY }
    const cohort = { key, headers: { 'x-account-id': accountId, 'x-user-id': 'u' } }
    const input = { input: { instances: [1] } }
    const endpoint = async () => (await buildEndpoint(db, accountId)).id
    const newKey = async () => {
      const { body } = await this.#made(`/accounts/${accountId}/keys`, { name: newId() })
      return String(body.key_id)
    }
    const webhook = async () => {
      const answer = await this.api.call('POST', '/api/builder/v1/webhook-endpoints', {
        ...own,
        body: { ...WEBHOOK_BODY, name: newId(), url: `https://hooks.hearth-user.com/${newId()}` },
      })
      const id = String(answer.body.endpoint_id)
      await db
        .updateTable('webhook_endpoint')
        .set({ verification_status: 'active' })
        .where('id', '=', id)
        .execute()
      return { endpoint_id: id }
    }
    const run = () => createRun(this.api, key, { dataset_id: datasetId })
    const tagged = async (params: Record<string, string>, path: string) => {
      const { headers } = await this.api.call('GET', path, own)
      return { ...own, params, headers: { 'if-match': String(headers['etag']) } }
    }
    const byKey = async () => ({ ...operator, params: { key_id: await newKey() } })
    const byAccount = { ...operator, params: { account_id: accountId } }
    const byNode = { ...operator, params: { node_id: this.#remote.nodeId } }
    const chat = { model: endpointId, messages: [{ role: 'user', content: 'hi' }] }

    return {
      createKey: () => ({ ...own, body: { name: newId() } }),
      updateKey: async () => ({ ...own, params: { key_id: await newKey() }, body: { name: newId() } }),
      revokeKey: async () => ({ ...own, params: { key_id: await newKey() } }),
      createDataset: () => ({ ...own, body: { dataset_name: newId(), storage_format: 'csv' } }),
      initUpload: async () => ({
        ...own,
        params: { dataset_id: await readyDataset(this.api, accountId, { rows: 2, status: 'pending' }) },
        body: { filename: 'a.csv', content_type: 'text/csv' },
      }),
      deleteDataset: async () => ({
        ...own,
        params: { dataset_id: await readyDataset(this.api, accountId, { rows: 2 }) },
      }),
      updateEndpoint: async () => {
        const endpoint_id = await endpoint()
        const call = await tagged({ endpoint_id }, `/api/builder/v1/endpoints/${endpoint_id}`)
        return { ...call, body: { description: newId() } }
      },
      deleteEndpoint: async () => {
        const endpoint_id = await endpoint()
        return tagged({ endpoint_id }, `/api/builder/v1/endpoints/${endpoint_id}`)
      },
      setScaling: async () => ({ ...own, params: { endpoint_id: await endpoint() }, body: { max: 2 } }),
      registerForInference: async () => {
        const job = await buildRun(db, accountId)
        await buildVersion(db, accountId, { job_id: job.id })
        return { ...own, params: { run_id: job.id }, body: { name: `e-${newId()}` } }
      },
      infer: () => ({ ...own, params: { endpoint_id: endpointId }, body: input }),
      inferAsync: () => ({ ...own, params: { endpoint_id: endpointId }, body: input }),
      cancelTask: async () => {
        const { body } = await this.api.call('POST', `/api/builder/v1/endpoints/${endpointId}/infer:async`, {
          ...own,
          body: input,
        })
        return { ...own, params: { task_id: String(body.task_id) } }
      },
      createModel: () => ({ ...own, body: { name: newId() } }),
      deleteModel: async () => {
        const { body } = await this.api.call('POST', '/api/builder/v1/models', {
          ...own,
          body: { name: newId() },
        })
        return { ...own, params: { model_id: String(body.model_id) } }
      },
      createTrainingRun: () => ({
        ...own,
        body: { job_name: newId(), model_config_id: 'tabular-regression', dataset_id: datasetId },
      }),
      repeatTrainingRun: async () => ({
        ...own,
        params: { run_id: await run() },
        body: { job_name: newId() },
      }),
      deleteTrainingRun: async () => ({ ...own, params: { run_id: (await buildRun(db, accountId)).id } }),
      cancelTrainingRun: async () => ({ ...own, params: { run_id: await run() } }),
      pauseTrainingRun: async () => ({ ...own, params: { run_id: await run() } }),
      resumeTrainingRun: async () => {
        const run_id = await run()
        await this.api.call('POST', `/api/builder/v1/training/runs/${run_id}:pause`, own)
        return { ...own, params: { run_id } }
      },
      createTrainingMerge: () => ({
        ...own,
        body: { name: newId(), method: 'slerp', sources: mergeable.map(versionRef) },
      }),
      addMemoryEntry: () => ({ ...own, body: { text: `fact ${newId()}` } }),
      clearMemory: () => own,
      recallMemory: () => ({ ...own, body: { query: newId() } }),
      createWebhookEndpoint: () => ({
        ...own,
        body: { ...WEBHOOK_BODY, name: newId(), url: `https://hooks.hearth-user.com/${newId()}` },
      }),
      updateWebhookEndpoint: async () => {
        const params = await webhook()
        const call = await tagged(params, `/api/builder/v1/webhook-endpoints/${params.endpoint_id}`)
        return { ...call, body: { name: newId() } }
      },
      deleteWebhookEndpoint: async () => {
        const params = await webhook()
        return tagged(params, `/api/builder/v1/webhook-endpoints/${params.endpoint_id}`)
      },
      rotateWebhookSecret: async () => ({ ...own, params: await webhook(), body: {} }),
      testWebhookEndpoint: async () => ({ ...own, params: await webhook() }),
      createChatCompletion: () => ({ ...own, body: chat }),
      createCompletion: () => ({ ...own, body: { model: endpointId, prompt: 'hi' } }),
      createResponse: () => ({ ...own, body: { model: endpointId, input: 'hi' } }),
      createEmbedding: () => ({ ...own, body: { model: endpointId, input: 'hi' } }),
      serveMcp: () => ({
        ...own,
        headers: { accept: 'application/json, text/event-stream' },
        body: { jsonrpc: '2.0', id: newId(), method: 'tools/call', params: { name: 'list_datasets' } },
      }),
      createAccount: () => ({ ...operator, body: { name: newId() } }),
      updateAccount: () => ({ ...byAccount, body: { name: newId() } }),
      giveAccountCredits: () => ({ ...byAccount, body: { amount_credits: 1, reason: newId() } }),
      createApiKey: () => ({ ...byAccount, body: { name: newId() } }),
      updateApiKey: async () => ({ ...(await byKey()), body: { name: newId() } }),
      revokeApiKey: byKey,
      createNodeToken: () => ({ ...operator, body: { account_id: accountId } }),
      enableMemory: () => byAccount,
      importMemory: () => ({ ...byAccount, body: { entries: [{ text: `fact ${newId()}` }] } }),
      grantMemory: () => ({ ...operator, params: { key_id: keyId, access: 'read' } }),
      startModelImport: () => ({ ...operator, body: { account_id: accountId, paths: ['a.bin'] } }),
      setMinWarm: async () => ({
        ...operator,
        params: { endpoint_id: await endpoint() },
        body: { min_warm: 1 },
      }),
      drainNode: () => byNode,
      resumeNode: () => byNode,
      shareNode: () => byNode,
      dedicateNode: () => byNode,
      loadNodeModel: () => ({
        ...operator,
        params: { node_id: this.#node.nodeId, model_key: this.#modelKey },
      }),
      joinNode: async () => {
        const { body } = await this.#made('/node-tokens', { account_id: accountId })
        const public_key = rawPublicKey(privateKeyFromPem(newNodeKey().privatePem))
        return {
          headers: { authorization: `Bearer ${body.node_token}` },
          body: { name: newId(), public_key, inventory: INVENTORY },
        }
      },
      planCohort: () => ({
        ...cohort,
        body: { name: newId(), stages: [{ stage_id: 'a', endpoint_id: endpointId, ...input }], edges: [] },
      }),
      runCohort: () => ({ ...cohort, body: { plan_id: planId, input: { x: newId() } } }),
      putObject: () => ({ query: `?expires=1&signature=${randomUUID()}`, raw: 'x' }),
      deactivateKillSwitch: () => ({ ...operator, body: { reason: newId() } }),
      cancelAccountRun: async () => ({ ...operator, params: { run_id: await run() } }),
    }
  }

  /** Creates a resource as an operator. */
  async #made(path: string, body: object) {
    const answer = await callAdmin(this.api, 'POST', path, body)
    if (answer.status >= 300) throw new Error(answer.text)
    return answer
  }
}

const INVENTORY = {
  hardware: 'cpu',
  cpus: 1,
  memory_mb: 0,
  ram_mb: 0,
  gpus: [],
  profiles: [],
  train_slots: 0,
  platform: 'linux',
  version: '0.12.0',
}

async function endpointOver(api: TestApi, accountId: string, modelKey: string): Promise<string> {
  const { db } = api.database
  const version = await db
    .selectFrom('model_version')
    .select('id')
    .where('model_key', '=', modelKey)
    .executeTakeFirstOrThrow()
  const row = await buildEndpoint(db, accountId, {
    version_id: version.id,
    model_key: modelKey,
    runtime_profile: 'tiny',
  })
  return row.id
}
