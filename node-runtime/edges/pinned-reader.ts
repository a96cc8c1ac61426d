import type { Dispatcher } from 'undici'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import { connectPinned, type EdgePeer } from './pinned-client.ts'

const MAX_HEAD_BYTES = 16_384
const PIECE_BYTES = 64 * 1024
const HEAD_END = '\r\n\r\n'
const STATUS = /^HTTP\/1\.1 ([1-5]\d\d)(?: |$)/

type Handler = Required<
  Pick<
    Dispatcher.DispatchHandler,
    'onRequestStart' | 'onResponseStart' | 'onResponseData' | 'onResponseEnd' | 'onResponseError'
  >
>

/**
 * Sends GET requests to a producer, each on its own connection. All bytes of a response pass through one buffer, so the
 * handler has to copy them. Streams allocate a buffer per TLS record, which takes a third more CPU, and 60 MB of memory
 * until they are collected (bench/edges.ts).
 */
export function pinnedReader(peer: EdgePeer) {
  const { host } = new URL(peer.url)
  return {
    dispatch({ path, headers }: { path: string; headers: Record<string, string> }, handler: Handler): void {
      const lines = Object.entries({ host, connection: 'close', ...headers }).map((line) => line.join(': '))
      const request = [`GET ${path} HTTP/1.1`, ...lines].join('\r\n') + HEAD_END
      void new Answer(handler).read(peer, request)
    },
  }
}

/** One response, from the connection to its last byte. It is also the controller that its handler gets. */
class Answer implements Dispatcher.DispatchController {
  readonly #handler: Handler
  #socket: Awaited<ReturnType<typeof connectPinned>> | undefined
  #head: Buffer | undefined = Buffer.alloc(0)
  /** Outstanding bytes of the body. */
  #left = 0
  /** Chunks that arrived while the handler was paused. */
  readonly #held: Buffer[] = []
  #isOver = false
  readonly #over = new AbortController()
  aborted = false
  paused = false
  reason: Error | null = null

  constructor(handler: Handler) {
    this.#handler = handler
  }

  async read(peer: EdgePeer, request: string): Promise<void> {
    try {
      this.#handler.onRequestStart(this, null)
      const onread = {
        buffer: Buffer.allocUnsafeSlow(PIECE_BYTES),
        callback: (length: number, buffer: Uint8Array) => this.#take(buffer, length),
      }
      const socket = await connectPinned(peer, { onread, signal: this.#over.signal })
      this.#socket = socket
      if (this.#isOver) return void socket.destroy()
      socket.once('error', (err) => this.#fail(err))
      socket.once('close', () => {
        const held = this.#held.reduce((sum, { length }) => sum + length, 0)
        if (this.#head || held < this.#left) this.#fail(new Error('the peer closed the connection'))
      })
      socket.write(request)
    } catch (err) {
      this.#fail(err as Error)
    }
  }

  abort(why: Error): void {
    this.aborted = true
    this.reason = why
    this.#fail(why)
  }

  pause(): void {
    this.paused = true
  }

  resume(): void {
    this.paused = false
    while (!this.paused && !this.#isOver) {
      const held = this.#held.shift()
      if (held === undefined) break
      this.#read(held)
    }
    if (!this.paused && !this.#isOver) this.#socket?.resume()
  }

  /** Handles received bytes; returning false pauses the connection until it is resumed. */
  #take(buffer: Uint8Array, length: number): boolean {
    const piece = Buffer.from(buffer.buffer, buffer.byteOffset, length)
    // Bytes that TLS has already decrypted still arrive after a pause.
    if (this.paused) this.#held.push(Buffer.from(piece))
    else this.#read(piece)
    return !this.paused && !this.#isOver
  }

  #read(piece: Buffer): void {
    if (this.#isOver) return
    try {
      if (this.#head) this.#readHead(this.#head, piece)
      else this.#readBody(piece)
    } catch (err) {
      this.#fail(err as Error)
    }
  }

  #readHead(before: Buffer, piece: Buffer): void {
    let rest = Buffer.concat([before, piece])
    for (;;) {
      const end = rest.indexOf(HEAD_END)
      if ((end < 0 ? rest.length : end) > MAX_HEAD_BYTES)
        throw new EdgeError('refused', 'the response header is too large')
      if (end < 0) return void (this.#head = rest)
      const { status, headers } = parseHead(rest.toString('latin1', 0, end))
      rest = rest.subarray(end + HEAD_END.length)
      this.#handler.onResponseStart(this, status, headers)
      if (this.#isOver) return
      if (status < 200) continue
      this.#head = undefined
      this.#left = Number(headers['content-length'] ?? 0)
      if (this.paused && this.#left > 0) return void this.#held.push(rest)
      return this.#readBody(rest)
    }
  }

  #readBody(piece: Buffer): void {
    const body = piece.length > this.#left ? piece.subarray(0, this.#left) : piece
    this.#left -= body.length
    if (body.length > 0) this.#handler.onResponseData(this, body)
    if (this.#left > 0 || this.#isOver) return
    this.#close()
    this.#handler.onResponseEnd(this, {})
  }

  #fail(err: Error): void {
    if (this.#isOver) return
    this.#close()
    this.#handler.onResponseError(this, err)
  }

  #close(): void {
    this.#isOver = true
    this.#over.abort()
    this.#socket?.destroy()
  }
}

function parseHead(text: string): { status: number; headers: Record<string, string> } {
  const [first = '', ...lines] = text.split('\r\n')
  const status = Number(STATUS.exec(first)?.[1] ?? Number.NaN)
  const headers = Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, Math.max(0, colon)).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  if (Number.isNaN(status) || 'transfer-encoding' in headers)
    throw new EdgeError('refused', 'the peer did not send a valid response: it may not be a node')
  return { status, headers }
}
