import type { WorkflowHandle } from '@temporalio/client'
import type { ControlActivities } from '../../../../activities/control/index.ts'
import { createNodeActivities, type NodeActivities } from '../../../../activities/node/index.ts'
import { AdminClient } from '../../../../cli/admin-client.ts'
import { importModel } from '../../../../cli/commands/models.ts'
import type { EndpointRow, NewEndpoint } from '../../../../db/tables/models.ts'
import { SlotShares } from '../../../../node-runtime/control/slot-shares.ts'
import { createLogger } from '../../../../platform/log.ts'
import type { ImportedModel } from '../../../../schemas/model-import.ts'
import type { OpenGate } from '../../../../workers/gate/open-gate.ts'
import { ActivityQueues } from '../../../../workers/node/activity-queues.ts'
import { GateAccess } from '../../../../workers/node/gate-access.ts'
import { wantedQueues } from '../../../../workers/node/queues.ts'
import { QUEUES, WORKFLOW_ID } from '../../../../workflows/contract/policy.ts'
import { buildEndpoint } from '../../builders/build-endpoint.ts'
import { type AnyBody, type Answer, OPERATIONS_KEY, type TestApi } from '../api.ts'
import { startGatedApi } from '../gate.ts'
import { addModel, startNode, type TestNode, type TestNodeOptions, until } from '../nodes/node.ts'
import { startControlWorker, startTemporal, type TestTemporal } from '../temporal.ts'

type Weights = Parameters<typeof addModel>[1]
type Order = Omit<Parameters<typeof importModel>[1], 'accountId'>

/** A gateway, Temporal, and the real nodes that a test starts. */
export interface InferenceWorld extends AsyncDisposable {
  readonly api: TestApi
  readonly gate: OpenGate
  readonly temporal: TestTemporal
  readonly accountId: string
  readonly key: string
  /** Runs the control worker until disposed. */
  control(wrap?: (activities: ControlActivities) => object): Promise<AsyncDisposable>
  /** Starts a node with its queues; `wrap` may change its activities. */
  node(options?: TestNodeOptions, wrap?: (activities: NodeActivities) => NodeActivities): Promise<WorldNode>
  endpoint(weights: Weights, overrides?: Partial<NewEndpoint>, memoryMb?: number): Promise<EndpointRow>
  /** Imports a model as an operator does. */
  import(order: Order): Promise<ImportedModel>
  infer(endpoint: EndpointRow, body: object): Promise<Answer<AnyBody>>
  task(id: string): Promise<AnyBody>
  workflow(taskId: string): WorkflowHandle
}

export interface WorldNode extends TestNode {
  /** Ends abruptly like a lost machine: its queues close without finishing their work. */
  readonly queues: ActivityQueues
  readonly access: GateAccess
}

export async function startInferenceWorld(env: NodeJS.ProcessEnv = {}): Promise<InferenceWorld> {
  await using stack = new AsyncDisposableStack()
  const temporal = stack.use(await startTemporal())
  const { api, gate } = await startGatedApi(stack, temporal, { env })
  const { accountId, key } = await api.account()
  const opened = stack.move()
  return {
    api,
    gate,
    temporal,
    accountId,
    key,
    control: (wrap) => startControlWorker(temporal, api.services, wrap),
    node: (options, wrap) => startWorldNode(api, options, wrap),
    async endpoint(weights, overrides, memoryMb) {
      const modelKey = await addModel(api, weights, memoryMb === undefined ? {} : { memoryMb })
      const { db } = api.database
      const version = await db
        .selectFrom('model_version')
        .select('id')
        .where('model_key', '=', modelKey)
        .executeTakeFirstOrThrow()
      return buildEndpoint(db, accountId, {
        version_id: version.id,
        model_key: modelKey,
        runtime_profile: 'tiny',
        ...overrides,
      })
    },
    import: (order) => importModel(new AdminClient(api.baseUrl, OPERATIONS_KEY), { ...order, accountId }),
    infer: (endpoint, body) =>
      api.call('POST', `/api/builder/v1/endpoints/${endpoint.id}/infer`, { key, body }),
    task: async (id) => (await api.call('GET', `/api/builder/v1/tasks/${id}`, { key })).body,
    workflow: (taskId) => temporal.client.workflow.getHandle(WORKFLOW_ID.task(taskId)),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  }
}

async function startWorldNode(
  api: TestApi,
  options?: TestNodeOptions,
  wrap: (activities: NodeActivities) => NodeActivities = (activities) => activities,
): Promise<WorldNode> {
  await using stack = new AsyncDisposableStack()
  const node = stack.use(await startNode(api, options))
  const log = createLogger('test-node', process.env.HEARTH_LOG_LEVEL ?? 'silent')
  const { parts, nodeId } = node
  const slotShares = options?.sharedSlots ? new SlotShares(options.sharedSlots) : parts.slotShares
  const activities = wrap(
    createNodeActivities({ ...parts, slotShares, nodeId, stopping: () => new AbortController().signal, log }),
  )
  const { identity, control } = parts
  const access: GateAccess = stack.use(
    await GateAccess.open(
      {
        config: { ...api.services.config, HEARTH_NODE_DIR: node.dir },
        identity,
        control,
        log,
        onDismissed: () => {},
        onMoved: (moved) => queues.moveTo(moved),
        onFault: () => {},
      },
      AbortSignal.timeout(30_000),
    ),
  )
  const { connection, namespace } = access
  const queues: ActivityQueues = stack.use(
    new ActivityQueues({ connection, namespace, activities, graceMs: 200, log }),
  )
  const open = () => {
    const { sharing = 'shared', slots, jobs = false } = options ?? {}
    const wanted = wantedQueues(parts, { draining: false, sharing })
    // Tests of jobs start their own workers.
    const placed = [...wanted].filter(([queue]) => jobs || !/^(?:train|merge)\./.test(queue))
    const own = QUEUES.node(nodeId)
    queues.want(
      new Map(placed.map(([queue, size]) => [queue, queue === own && slots ? { ...size, slots } : size])),
    )
  }
  parts.models.onChange(open)
  open()
  await until(async () => {
    const row = await api.database.db
      .selectFrom('node_state')
      .select('node_id')
      .where('node_id', '=', nodeId)
      .executeTakeFirst()
    return row !== undefined
  })
  const opened = stack.move()
  return { ...node, queues, access, [Symbol.asyncDispose]: () => opened.disposeAsync() }
}
