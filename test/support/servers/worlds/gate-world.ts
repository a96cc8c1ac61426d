import { randomUUID } from 'node:crypto'
import { Connection } from '@temporalio/client'
import { newId } from '../../../../domain/ids.ts'
import type { NodeSharing } from '../../../../schemas/nodes/node.ts'
import type { TestApi } from '../api.ts'
import { startGatedApi } from '../gate.ts'
import { signedNode, type SignedNode } from '../nodes/signed-node.ts'
import { startTemporal, type TestTemporal } from '../temporal.ts'

/** The route where nodes request their Temporal credential. */
export const CREDENTIAL = '/api/v1/nodes:temporal-credential'
type Service = Connection['workflowService']

/** A node that the test itself controls, with a connection to the gate. */
export interface GateNode extends SignedNode {
  /** The connection that the SDK would use: to the gate, with the node's credential. */
  connection: Connection
  service: Service
  poll(queue: string, withinMs?: number): ReturnType<Service['pollActivityTaskQueue']>
}

/** Temporal, a gateway, and the gate between them and the nodes. */
export interface GateWorld extends AsyncDisposable {
  api: TestApi
  temporal: TestTemporal
  gateAddress: string
  /** Connects a node to the world's gate, or to another gate. */
  node(name?: string, options?: { address?: string; sharing?: NodeSharing }): Promise<GateNode>
  /** Connects to the gate with this token. */
  connect(token: string | undefined, address?: string): Connection
  /** Schedules an activity on a queue, from a hand-made workflow with this id. */
  schedule(queue: string, options?: { workflowId?: string; input?: object }): Promise<string>
}

export interface GateWorldOptions {
  holdMs?: number
  env?: NodeJS.ProcessEnv
  /** The test's Temporal server; starts one if absent. */
  temporal?: TestTemporal
}

export async function startGateWorld({
  holdMs = 300,
  env = {},
  temporal: given,
}: GateWorldOptions = {}): Promise<GateWorld> {
  await using stack = new AsyncDisposableStack()
  const temporal = given ?? stack.use(await startTemporal())
  const { api, gate } = await startGatedApi(stack, temporal, { holdMs, env })
  const gateAddress = `127.0.0.1:${gate.port}`
  const connect = (token: string | undefined, address = gateAddress) => {
    const metadata = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const connection = Connection.lazy({ address, metadata, interceptors: [] })
    opened.defer(() => connection.close())
    return connection
  }
  const opened = stack.move()
  return {
    api,
    temporal,
    gateAddress,
    connect,
    async node(name, { address, sharing } = {}) {
      const node = await signedNode(api, name, sharing && { sharing })
      const { body } = await node.post<{ token: string }>(CREDENTIAL, {
        instance_id: randomUUID(),
        is_start: true,
      })
      const connection = connect(body.token, address)
      const service = connection.workflowService
      return {
        ...node,
        connection,
        service,
        poll: (queue, withinMs = 10_000) =>
          connection.withDeadline(Date.now() + withinMs, () =>
            service.pollActivityTaskQueue({
              namespace: 'default',
              taskQueue: { name: queue },
              identity: 'x',
            }),
          ),
      }
    },
    schedule: (queue, options) => schedule(temporal, queue, options),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  }
}

/** Acts as the worker for a workflow's first task. */
async function schedule(
  { client }: TestTemporal,
  queue: string,
  { workflowId = `task/${newId()}`, input = {} }: { workflowId?: string; input?: object } = {},
): Promise<string> {
  const byHand = { name: `by-hand-${newId()}` }
  await client.workflow.start('byHand', { workflowId, taskQueue: byHand.name, args: [] })
  const service = client.connection.workflowService
  const { taskToken } = await client.connection.withDeadline(Date.now() + 10_000, () =>
    service.pollWorkflowTaskQueue({ namespace: 'default', taskQueue: byHand }),
  )
  const seconds = (count: number) => ({ seconds: count as never })
  await service.respondWorkflowTaskCompleted({
    namespace: 'default',
    taskToken,
    commands: [
      {
        commandType: 1,
        scheduleActivityTaskCommandAttributes: {
          activityId: '1',
          activityType: { name: 'inferTask' },
          taskQueue: { name: queue },
          input: { payloads: [{ data: Buffer.from(JSON.stringify(input)) }] },
          startToCloseTimeout: seconds(60),
          heartbeatTimeout: seconds(30),
          retryPolicy: { maximumAttempts: 1 },
        },
      },
    ],
  })
  return workflowId
}
