import { once } from 'node:events'
import type { Kysely } from 'kysely'
import WebSocket from 'ws'
import type { Database } from '../../../../db/tables.ts'
import { newId } from '../../../../domain/ids.ts'
import { encodeFrame, type Frame, parseMeta } from '../../../../platform/link/codec.ts'
import { newNodeKey, privateKeyFromPem, rawPublicKey, signRequest } from '../../../../platform/signing.ts'
import { type AckMeta, FRAME, type FrameType } from '../../../../schemas/nodes/link.ts'
import type { NodeModel } from '../../../../schemas/nodes/node.ts'
import { decodeFrames } from '../../builders/link-frames.ts'

const LINK_PATH = '/api/v1/nodes/link'
let lastTimestamp = 0

export const INVENTORY = {
  hardware: 'cpu' as const,
  cpus: 4,
  memory_mb: 8_000,
  ram_mb: 16_000,
  gpus: [],
  profiles: ['tiny'],
  train_slots: 1,
  platform: 'linux',
  version: '0.11.0',
}

export const reportOf = (models: Partial<NodeModel>[] = [], more: object = {}) => ({
  memory_total_mb: 8_000,
  memory_free_mb: 8_000,
  load: 0,
  draining: false,
  jobs: 0,
  models: models.map((model, i) => ({
    model_key: `model-${i}`,
    state: 'warm' as const,
    in_flight: 0,
    memory_mb: 10,
    ...model,
  })),
  ...more,
})

/** A node whose bytes are all sent by the test. */
export interface RawNode {
  readonly nodeId: string
  readonly accountId: string
  /** Opens a link to a gateway; the node sends a hello and reports these models as loaded, unless `silent`. */
  link(baseUrl: string, options?: LinkOptions): Promise<RawLink>
}

export interface LinkOptions {
  models?: string[]
  silent?: boolean
  headers?: Record<string, string>
}

export interface RawLink extends Disposable {
  readonly socket: WebSocket
  readonly frames: Frame[]
  readonly closed: Promise<string>
  /** The headers of the gateway's response to the handshake. */
  readonly upgrade: Record<string, string | string[] | undefined>
  onFrame: (frame: Frame) => void
  send(type: number, stream: number, meta?: object, body?: Uint8Array | object): void
  /** Credit granted so far, by stream. */
  granted(stream: number): number
}

/** Adds a shared node with its own key. */
export async function rawNode(db: Kysely<Database>): Promise<RawNode> {
  const key = privateKeyFromPem(newNodeKey().privatePem)
  const [nodeId, accountId] = [newId(), newId()]
  await db.insertInto('account').values({ id: accountId, name: 'owner' }).execute()
  await db
    .insertInto('node')
    .values({
      id: nodeId,
      account_id: accountId,
      name: 'raw',
      public_key: Buffer.from(rawPublicKey(key), 'base64'),
      status: 'active',
      hardware: 'cpu',
      inventory: JSON.stringify(INVENTORY),
      runtime_version: INVENTORY.version,
      sharing: 'shared',
    })
    .execute()

  return {
    nodeId,
    accountId,
    async link(baseUrl, { models = [], silent = false, headers = {} } = {}) {
      for (const model_key of models) {
        const order = { node_id: nodeId, model_key }
        await db
          .insertInto('node_model_order')
          .values(order)
          .onConflict((oc) => oc.doNothing())
          .execute()
      }
      lastTimestamp = Math.max(Date.now(), lastTimestamp + 1)
      const signed = { method: 'GET', path: LINK_PATH, timestamp: lastTimestamp, accountId, nodeId, body: '' }
      const socket = new WebSocket(baseUrl.replace('http', 'ws') + LINK_PATH, {
        headers: { ...signRequest(key, signed), ...headers },
        perMessageDeflate: false,
      })
      const link = openLink(socket)
      const [upgrade] = await Promise.all([once(socket, 'upgrade'), once(socket, 'open')])
      Object.assign(link, { upgrade: (upgrade as [{ headers: RawLink['upgrade'] }])[0].headers })
      if (silent) return link
      link.send(FRAME.hello, 0, {}, { inventory: INVENTORY })
      link.send(FRAME.state, 0, {}, { report: reportOf(models.map((model_key) => ({ model_key }))) })
      return link
    },
  }
}

function openLink(socket: WebSocket): RawLink {
  const credit = new Map<number, number>()
  const { promise: closed, resolve } = Promise.withResolvers<string>()
  const link: RawLink = {
    socket,
    frames: [],
    closed,
    upgrade: {},
    onFrame: () => {},
    send(type, stream, meta = {}, body = Buffer.alloc(0)) {
      const bytes = body instanceof Uint8Array ? body : Buffer.from(JSON.stringify(body))
      const text = Object.keys(meta).length > 0 ? JSON.stringify(meta) : ''
      if (socket.readyState === WebSocket.OPEN)
        socket.send(encodeFrame(type as FrameType, stream, text, bytes))
    },
    granted: (stream) => credit.get(stream) ?? 0,
    [Symbol.dispose]: () => socket.terminate(),
  }
  socket.on('error', () => {})
  socket.on('close', (code, reason) => resolve(`${code} ${reason.toString()}`))
  socket.on('message', (message: Buffer) => {
    for (const frame of decodeFrames(message)) {
      if (frame.type === FRAME.ping) continue
      if (frame.type === FRAME.ack && frame.stream !== 0) {
        const { credit: more = 0 } = parseMeta<AckMeta>(frame)
        credit.set(frame.stream, (credit.get(frame.stream) ?? 0) + more)
      }
      link.frames.push(frame)
      link.onFrame(frame)
    }
  })
  return link
}
