import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { WebSocket } from 'ws'
import { WebSocketServer } from 'ws'
import { LinkError } from '../../../../api/gateway/links/link-request.ts'
import { newId } from '../../../../domain/ids.ts'
import { RecentLogs } from '../../../../node-runtime/control/recent-logs.ts'
import { GatewayLink } from '../../../../node-runtime/link/gateway-link.ts'
import { encodeFrame, type Frame, parseMeta } from '../../../../platform/link/codec.ts'
import { FRAME, type FrameType, LINK_HEADER, LINK_VERSION } from '../../../../schemas/nodes/link.ts'
import { decodeFrames } from '../../../support/builders/link-frames.ts'
import { startApi, type TestApi } from '../../../support/servers/api.ts'
import { addModel, startNode, type TestNode, until } from '../../../support/servers/nodes/node.ts'
import { INVENTORY, type RawNode, rawNode, reportOf } from '../../../support/servers/nodes/raw-node.ts'

/** Frame types that no version uses yet. */
const NEWER: readonly number[] = [14, 77, 255]

describe('a link between versions', () => {
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())

  describe('at the gateway', () => {
    let node: RawNode
    before(async () => {
      node = await rawNode(api.database.db)
    })

    const ask = (body: string) => {
      const request = { accountId: newId(), modelKey: 'any', path: '/infer', body: Buffer.from(body) }
      return api.services.links.ask(node.nodeId, request)
    }
    const linked = async (headers: Record<string, string> = {}) => {
      const link = await node.link(api.baseUrl, { models: ['any', 'later'], headers })
      await until(() => link.frames.some(({ type }) => type === FRAME.hello))
      return link
    }

    it('sends its version in the handshake and in the first frame, whether or not the node sends its own', async () => {
      for (const headers of [
        {},
        { [LINK_HEADER]: '1' },
        { [LINK_HEADER]: '9' },
        { [LINK_HEADER]: 'no number' },
      ]) {
        using link = await linked(headers)
        assert.equal(link.upgrade[LINK_HEADER], String(LINK_VERSION))
        const hello = link.frames.find(({ type }) => type === FRAME.hello)!
        assert.equal(parseMeta<{ link_version: number }>(hello).link_version, LINK_VERSION)
      }
    })

    it('ignores frames of unknown types, even within a response', async () => {
      using link = await linked({ [LINK_HEADER]: '7' })
      link.onFrame = ({ type, stream }) => {
        if (type !== FRAME.request) return
        for (const newer of NEWER) {
          link.send(newer, stream, { what: 'ever' }, Buffer.from('more'))
          link.send(newer, 0)
        }
        link.send(FRAME.end, stream, { status: 200, later: { member: [1] } }, Buffer.from('{"a":1}'))
      }

      assert.equal((await ask('{}')).body.toString(), '{"a":1}')
    })

    it('accepts reports and hellos with unknown members, and stores none of them', async () => {
      using link = await linked()
      link.send(
        FRAME.hello,
        0,
        {},
        { inventory: { ...INVENTORY, cooling: 'water' }, link_version: 12, mood: 'good' },
      )
      const models = [{ model_key: 'any' }, { model_key: 'later', fitness: 3 } as object]
      link.send(
        FRAME.state,
        0,
        {},
        { report: reportOf(models, { weather: 'fine', memory_free_mb: 777 }), since: 4 },
      )

      const snapshot = () => api.services.links.snapshot().find(({ node_id }) => node_id === node.nodeId)
      await until(() => snapshot()?.memory_free_mb === 777 && snapshot()?.models.length === 2)
      assert.doesNotMatch(JSON.stringify(snapshot()), /fitness|weather|cooling/)
    })

    it('fails only the stream whose answer needs an unknown feature or has an unknown error code', async () => {
      using link = await linked()
      link.onFrame = ({ type, stream, body }) => {
        if (type !== FRAME.request) return
        const wanted = body.toString()
        if (wanted === 'head') link.send(FRAME.head, stream, { status: 200, needs: ['zstd'] })
        else if (wanted === 'end')
          link.send(FRAME.end, stream, { status: 200, needs: [{ a: 1 }] }, Buffer.from('?'))
        else if (wanted === 'error') link.send(FRAME.error, stream, { code: 'too_warm', message: 'no' })
        else link.send(FRAME.end, stream, { status: 200, needs: [] }, Buffer.from('well'))
      }
      const isFault = (code: string) => (err: unknown) => err instanceof LinkError && err.code === code

      await assert.rejects(ask('head'), isFault('unsupported'))
      await assert.rejects(ask('end'), isFault('unsupported'))
      await assert.rejects(ask('error'), isFault('internal'))
      assert.equal((await ask('')).body.toString(), 'well')
    })
  })

  describe('at the node', () => {
    let node: TestNode
    let model: string
    before(async () => {
      node = await startNode(api)
      model = await addModel(api, { name: 'versions' })
      await node.parts.models.load(model)
    })
    after(() => node[Symbol.asyncDispose]())

    /** Starts a gateway on which the test sends every byte, and the node's link to it. */
    async function speak(headers: string[]) {
      const server = createServer()
      const sockets = new WebSocketServer({ server, path: '/api/v1/nodes/link' })
      sockets.on('headers', (all) => all.push(...headers))
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
      const { identity, models, tools, inputs, spool, work, keepers } = node.parts
      const opened = once(sockets, 'connection')
      const link = new GatewayLink({
        url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
        identity,
        inventory: INVENTORY,
        models,
        tools,
        inputs,
        spool,
        work,
        keepers,
        lines: new RecentLogs(),
        report: () => reportOf(),
        onHello: () => {},
        onNoLink: () => {},
        log: api.services.log,
      })
      const [socket, request] = (await opened) as [WebSocket, { headers: Record<string, string> }]
      const frames: Frame[] = []
      socket.on('message', (message: Buffer) => frames.push(...decodeFrames(message)))
      const send = (type: number, stream: number, meta: object = {}, body = '') =>
        socket.send(encodeFrame(type as FrameType, stream, JSON.stringify(meta), Buffer.from(body)))
      const answerOn = async (stream: number) => {
        const isIt = (frame: Frame) => frame.stream === stream
        await until(() => frames.some(isIt))
        return frames.find(isIt)!
      }
      const stop = () => {
        link.close()
        sockets.close()
        server.close()
      }
      return { send, socket, frames, answerOn, headers: request.headers, [Symbol.dispose]: stop }
    }

    for (const headers of [[`${LINK_HEADER}: 9`], []]) {
      it(`works with a gateway that sends ${headers[0] ?? 'no version'}`, async () => {
        using gateway = await speak(headers)
        assert.equal(gateway.headers[LINK_HEADER], String(LINK_VERSION))
        for (const newer of NEWER) gateway.send(newer, 3, { any: 'thing' }, 'bytes')
        gateway.send(FRAME.hello, 0, { link_version: 9, gateways: [], news: { of: 'later' } })
        const meta = { model_key: model, path: '/infer', colour: 'red' }
        gateway.send(FRAME.request, 1, { ...meta, needs: ['telepathy'] }, '{"instances":[1]}')
        gateway.send(FRAME.request, 2, { ...meta, needs: [] }, '{"instances":[2]}')

        const [refused, answered] = await Promise.all([gateway.answerOn(1), gateway.answerOn(2)])

        assert.equal(refused.type, FRAME.error)
        assert.equal(parseMeta<{ code: string }>(refused).code, 'unsupported')
        assert.equal(answered.type, FRAME.end)
        assert.match(answered.body.toString(), /predictions/)
        const hello = gateway.frames.find(({ type }) => type === FRAME.hello)!
        assert.equal(
          (JSON.parse(hello.body.toString()) as { link_version: number }).link_version,
          LINK_VERSION,
        )
      })
    }
  })
})
