import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import WebSocket from 'ws'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import { backoff } from '../../platform/async/retry.ts'
import { EdgeSession, type SessionOptions } from './edge-session.ts'
import { bearer, connectPinned, edgePath, type EdgePeer } from './pinned-client.ts'
import { MAX_MESSAGE_BYTES } from './session-frames.ts'

const RETRY_DELAY_MS = { first: 50, longest: 1_000 }
const HANDSHAKE_TIMEOUT_MS = 5_000
/** The time limit for connecting to a node that a probe has reached. */
const CONNECT_TIMEOUT_MS = 10_000
/** TLS already hides the bytes from intermediaries, so masking (RFC 6455, 10.3) would only cost CPU. */
const noMask = (mask: Buffer): void => void mask.fill(0)

/** Opens a session with the producer's node and reconnects whenever the connection breaks. */
export function dialSession(peer: EdgePeer, options: SessionOptions, signal: AbortSignal): EdgeSession {
  const session = new EdgeSession({ beginMs: CONNECT_TIMEOUT_MS, ...options })
  const cancel = () => session.destroy()
  if (signal.aborted) cancel()
  else signal.addEventListener('abort', cancel, { once: true })
  void reconnectUntilClosed(session, peer, signal).finally(() => signal.removeEventListener('abort', cancel))
  return session
}

async function reconnectUntilClosed(
  session: EdgeSession,
  peer: EdgePeer,
  signal: AbortSignal,
): Promise<void> {
  for (let failures = 0; !session.isOver; failures++) {
    try {
      const socket = await connect(peer, signal)
      const closed = new Promise((resolve) => socket.once('close', resolve))
      session.attach(socket)
      failures = 0
      await closed
    } catch (err) {
      // A retry can't help with an EdgeError. After any other error the session retries until its silence timeout.
      if (err instanceof EdgeError) return session.destroy(err)
    }
    if (!session.isOver) await sleep(backoff(failures, RETRY_DELAY_MS))
  }
}

async function connect(peer: EdgePeer, signal: AbortSignal): Promise<WebSocket> {
  const tls = await connectPinned(peer, { signal })
  const url = new URL(edgePath(peer), peer.url)
  url.protocol = 'wss:'
  const socket = new WebSocket(url, {
    createConnection: () => tls,
    headers: bearer(peer),
    perMessageDeflate: false,
    followRedirects: false,
    maxPayload: MAX_MESSAGE_BYTES,
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
    generateMask: noMask,
  })
  try {
    await once(socket, 'open')
    return socket
  } catch (err) {
    tls.destroy()
    throw err
  }
}
