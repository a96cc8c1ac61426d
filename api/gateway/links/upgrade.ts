import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocketServer } from 'ws'
import { ApiError } from '../../../domain/errors.ts'
import { versionIn } from '../../../platform/link/codec.ts'
import { LINK_HEADER, LINK_VERSION } from '../../../schemas/nodes/link.ts'
import type { NodeCaller } from '../../http/caller.ts'
import { identify } from '../../http/connections/connection-limits.ts'
import type { SignedRequest } from './node-authenticator.ts'
import type { NodeLinks } from './node-links.ts'

const LINK_PATH = '/api/v1/nodes/link'
const MAX_FRAME = 1024 * 1024

/** Returns whether a request opens a link. We ignore the upgrade of any other request (RFC 9110, 7.8). */
export const isLinkUpgrade = ({ url, headers }: IncomingMessage): boolean =>
  url?.split('?')[0] === LINK_PATH && headers.upgrade?.toLowerCase() === 'websocket'

/** Upgrades `GET /api/v1/nodes/link` to a link; the handshake is signed like any node request. */
export function serveLinks(
  server: Server,
  { links, verify }: { links: NodeLinks; verify: (request: SignedRequest) => Promise<NodeCaller> },
): void {
  const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: MAX_FRAME })

  sockets.on('headers', (headers) => headers.push(`${LINK_HEADER}: ${LINK_VERSION}`))

  const upgrade = async (req: IncomingMessage, socket: Duplex, head: Buffer) => {
    try {
      const { nodeId, accountId } = await verify(signedParts(req))
      identify(socket, { key: `node/${nodeId}`, isPlatform: true })
      if (!links.mayLink(nodeId))
        return refuse(socket, 503, 'this node links too often; try again in a moment')
      sockets.handleUpgrade(req, socket, head, (webSocket) =>
        links.accept(nodeId, webSocket, accountId, versionIn(req.headers[LINK_HEADER])),
      )
    } catch (err) {
      const isRefusal = err instanceof ApiError && err.code === 'unauthenticated'
      refuse(socket, isRefusal ? 401 : 503, isRefusal ? err.message : 'Service Unavailable')
    }
  }
  server.on('upgrade', (req, socket, head) => {
    socket.on('error', () => socket.destroy())
    void upgrade(req, socket, head)
  })
}

function signedParts({ method = '', url = '', headers }: IncomingMessage): SignedRequest {
  const text = (name: string) => {
    const value = headers[name]
    return typeof value === 'string' ? value : ''
  }
  return {
    method,
    path: url,
    timestamp: Number(text('x-node-timestamp') || Number.NaN),
    accountId: text('x-account-id'),
    nodeId: text('x-node-id'),
    signature: text('x-node-signature'),
    bodySha256: undefined,
    body: Buffer.alloc(0),
  }
}

function refuse(socket: Duplex, status: number, message: string): void {
  const text = `${message}\n`
  socket.end(
    `HTTP/1.1 ${status} ${status === 401 ? 'Unauthorized' : 'Service Unavailable'}\r\n` +
      `Connection: close\r\nContent-Type: text/plain\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  )
}
