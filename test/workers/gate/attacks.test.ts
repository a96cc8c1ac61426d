import assert from 'node:assert/strict'
import { type ClientHttp2Session, connect, type IncomingHttpHeaders } from 'node:http2'
import { status } from '@grpc/grpc-js'
import proto from '@temporalio/proto'
import { newId } from '../../../domain/ids.ts'
import { NodeCredentials } from '../../../platform/node-credentials.ts'
import { type GateNode, type GateWorld, startGateWorld } from '../../support/servers/worlds/gate-world.ts'

const SERVICE = '/temporal.api.workflowservice.v1.WorkflowService'
const COMPLETED = `${SERVICE}/RespondActivityTaskCompleted`
const { RecordActivityTaskHeartbeatRequest, PollActivityTaskQueueRequest } =
  proto.temporal.api.workflowservice.v1

const framed = (message: Uint8Array, length = message.length): Buffer => {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(length, 1)
  return Buffer.concat([head, message])
}

describe('the Temporal gate under attack', function () {
  this.timeout(120_000)
  let world: GateWorld
  let node: GateNode
  let session: ClientHttp2Session
  before(async () => {
    world = await startGateWorld()
    node = await world.node('hostile')
  })
  after(() => world[Symbol.asyncDispose]())
  beforeEach(() => {
    session = connect(`http://${world.gateAddress}`)
    session.on('error', () => {})
  })
  afterEach(() => session.destroy())

  const credential = (nodeId: string) =>
    new NodeCredentials(world.api.services.config.HEARTH_ENCRYPTION_KEYS).issue({
      nodeId,
      expiresAt: Date.now() + 60_000,
    })
  const own = () => `Bearer ${credential(node.nodeId)}`

  /** Sends bytes as one call; returns the gRPC status once the call has ended. */
  function send(
    path: string,
    body: readonly Uint8Array[],
    { isWhole = true, ...headers }: { isWhole?: boolean; authorization?: string } = {},
  ): { ended: Promise<string> } {
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    })
    const { promise: ended, resolve } = Promise.withResolvers<string>()
    const note = (found: IncomingHttpHeaders) => {
      if (found['grpc-status'] !== undefined) resolve(String(found['grpc-status']))
    }
    stream.on('response', note).on('trailers', note)
    stream.once('close', () => resolve('closed'))
    stream.on('error', () => {}).resume()
    for (const bytes of body) stream.write(bytes)
    if (isWhole) stream.end()
    return { ended }
  }
  it('rejects a request without credentials before reading its message', async () => {
    const part = framed(Buffer.alloc(1_000), 1_000_000)

    for (const authorization of ['', 'Bearer hgt_none']) {
      const { ended } = send(COMPLETED, [part], { isWhole: false, authorization })
      assert.equal(await ended, String(status.UNAUTHENTICATED))
    }
  })

  it('rejects malformed messages and messages larger than any valid result', async () => {
    const authorization = own()
    const cases: [string, Uint8Array[]][] = [
      ['too large', [framed(Buffer.alloc(2_000_000))]],
      ['claims 4 GB', [framed(Buffer.alloc(10), 0xffff_ffff)]],
      ['not a protocol buffer', [framed(Buffer.from([0x0f, 0xff, 0xff]))]],
      ['empty', [framed(Buffer.alloc(0))]],
      ['no frame at all', [Buffer.from('{"task_token":"x"}')]],
      ['nothing', []],
    ]
    for (const [what, body] of cases) {
      const code = Number(await send(COMPLETED, body, { authorization }).ended)
      assert.ok(code !== status.OK && code > 0, `${what}: ${code}`)
      if (what === 'too large') assert.equal(code, status.RESOURCE_EXHAUSTED)
    }
    await node.service.getSystemInfo({})
  })

  it('matches method names exactly', async () => {
    const authorization = own()
    const poll = framed(
      PollActivityTaskQueueRequest.encode({ namespace: 'default', taskQueue: { name: 'control' } }).finish(),
    )
    for (const path of [
      `${SERVICE}/POLLACTIVITYTASKQUEUE`,
      `${SERVICE.toUpperCase()}/PollActivityTaskQueue`,
      `${SERVICE}/PollWorkflowTaskQueue`,
      `${SERVICE}/PollActivityTaskQueue/../PollWorkflowTaskQueue`,
      `/${SERVICE}/PollActivityTaskQueue`,
      `${SERVICE}/PollActivityTaskQueue?x=/PollWorkflowTaskQueue`,
      '/temporal.server.api.adminservice.v1.AdminService/DescribeCluster',
    ]) {
      const code = Number(await send(path, [poll], { authorization }).ended)
      assert.ok([status.UNIMPLEMENTED, status.PERMISSION_DENIED].includes(code), `${path}: ${code}`)
    }
  })

  it("doesn't let a node keep another node's work alive or reach another namespace", async () => {
    const other = await world.node('other')
    await world.schedule(`node.${other.nodeId}`, { workflowId: `task/${newId()}` })
    const { taskToken } = await other.poll(`node.${other.nodeId}`)
    const beat = (namespace: string, token: Uint8Array = taskToken) =>
      framed(RecordActivityTaskHeartbeatRequest.encode({ namespace, taskToken: token }).finish())
    const path = `${SERVICE}/RecordActivityTaskHeartbeat`
    const [mine, theirs, junk] = [own(), `Bearer ${credential(other.nodeId)}`, 'Bearer hgt_none']

    for (const [authorization, body, expected] of [
      [mine, beat('default'), status.PERMISSION_DENIED],
      [`${junk}, ${theirs}`, beat('default'), status.UNAUTHENTICATED],
      [theirs, beat('temporal-system'), status.PERMISSION_DENIED],
      [theirs, beat('default', taskToken.subarray(36)), status.PERMISSION_DENIED],
      [theirs, beat('default'), status.OK],
    ] as const) {
      assert.equal(await send(path, [body], { authorization }).ended, String(expected), authorization)
    }
  })
})
