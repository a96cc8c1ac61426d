import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import { EdgeAddresses } from '../../platform/egress/edge-addresses.ts'
import { dialSession } from './dial-session.ts'
import { type EdgeListen, EdgeServer } from './edge-server.ts'
import { EdgeSession, type SessionOptions } from './edge-session.ts'
import { fetchPayload, fetchRelayed, type FetchOptions } from './fetch-payload.ts'
import type { FrameSource } from './growing-payload.ts'
import { announceKey, machineKeys, withdrawKey } from './machine-keys.ts'
import { PayloadStore } from './payload-store.ts'
import type { EdgeAttempt, Payload } from './payload.ts'
import type { EdgePeer } from './pinned-client.ts'
import { relayPayload, type RelayUpload } from './relay.ts'
import { sendFrames } from './send-frames.ts'
import type { SessionFrame } from './session-frames.ts'

/** The source of a payload: the producer's node, or a signed URL. */
export type PayloadSource = { transport: 'direct'; peer: EdgePeer } | { transport: 'relay'; url: string }

/** The folder of payloads, its size limit, and the address for consumers. */
export interface EdgesOptions {
  dir: string
  /** 0 derives the limit from the free disk space. */
  limitMb: number
  /** Without an address no consumer can connect to this node, and its payloads are relayed. */
  listen: EdgeListen | undefined
  /** The networks of producers that this node may connect to, in CIDR notation; empty allows private and public ones. */
  networks?: readonly string[]
}

type ReceiveOptions = Omit<FetchOptions, 'writer'> & { maxBytes: number }

interface FramesOptions {
  maxBytes: number
  windowBytes: number
  signal: AbortSignal
  /** Called after each received frame with the bytes so far. */
  onTaken: (taken: { acknowledged: number; bytes: number }) => void
}

/** The ends of edges on this node. `release` frees everything that an attempt holds here. */
export class Edges implements AsyncDisposable {
  readonly store: PayloadStore
  readonly #listen: EdgeListen | undefined
  readonly #addresses: EdgeAddresses
  /** The transfer in progress for each edge, at either end. */
  readonly #atWork = new Map<string, { attempt: number; controller: AbortController }>()
  #server: Promise<EdgeServer> | undefined

  static async open({ dir, limitMb, listen, networks = [] }: EdgesOptions): Promise<Edges> {
    return new Edges(await PayloadStore.open({ dir, limitMb }), listen, new EdgeAddresses(networks))
  }

  private constructor(store: PayloadStore, listen: EdgeListen | undefined, addresses: EdgeAddresses) {
    this.store = store
    this.#listen = listen
    this.#addresses = addresses
  }

  /** Returns the keys of producers on this machine, which this node can reach over loopback. */
  localKeys(): Promise<string[]> {
    return machineKeys()
  }

  /** Returns the candidates of a producer that this node may connect to. The platform's list isn't trusted. */
  async allowed(urls: readonly string[], spkiSha256: string): Promise<string[]> {
    const isSameMachine = (await this.localKeys()).includes(spkiSha256)
    return urls.filter((url) => this.#addresses.allows(url, { isSameMachine }))
  }

  /** Returns the server of this node's payloads, which the first call starts; undefined if the node may not listen. */
  server(): Promise<EdgeServer | undefined> {
    if (!this.#listen) return Promise.resolve(undefined)
    return (this.#server ??= this.#start(this.#listen).catch((err: unknown) => {
      this.#server = undefined
      throw err
    }))
  }

  async #start(listen: EdgeListen): Promise<EdgeServer> {
    const server = await EdgeServer.start(this.store, listen)
    // Without the announcement, consumers on this machine fall back to the object store.
    await announceKey(server.spkiSha256).catch(() => {})
    return server
  }

  /** Fetches the payload of an attempt into this node's store. The caller must dispose or hold the result. */
  async receive(
    at: EdgeAttempt,
    source: PayloadSource,
    { maxBytes, signal, ...options }: ReceiveOptions,
  ): Promise<Payload> {
    using work = this.#begin(at, signal)
    await using writer = await this.store.write({ sizeBytes: options.sizeBytes ?? 0, maxBytes })
    const all = { ...options, writer, signal: work.signal }
    return source.transport === 'direct'
      ? await fetchPayload(source.peer, all)
      : await fetchRelayed(source.url, all)
  }

  /** Uploads the payload of an attempt for a consumer that can't connect to this node. */
  async relay(at: EdgeAttempt, upload: RelayUpload, signal?: AbortSignal): Promise<void> {
    using work = this.#begin(at, signal)
    const payload = this.store.find(at)
    if (!payload) throw new EdgeError('payload_gone', 'the payload is no longer on this node')
    await relayPayload(payload, upload, work.signal)
  }

  /** Receives the payload of an attempt as frames, which its producer sends as it produces them. */
  async receiveFrames(
    peer: EdgePeer,
    { maxBytes, windowBytes, signal, onTaken }: FramesOptions,
  ): Promise<Payload> {
    await using writer = await this.store.write({ maxBytes })
    const onFrame = async ({ sequence, bytes }: SessionFrame) => {
      await writer.write(bytes)
      onTaken({ acknowledged: sequence, bytes: writer.bytes })
    }
    const session = this.join(peer, { onFrame, windowBytes }, signal)
    // The consumer sends nothing.
    await session.send(Buffer.alloc(0), { isLast: true })
    await session.done
    return await writer.finish()
  }

  /** Serves a payload as frames to the consumer of an attempt, until the attempt is released. */
  async sendFrames(at: EdgeAttempt, source: FrameSource, windowBytes: number): Promise<void> {
    const server = await this.server()
    if (!server) throw new EdgeError('unreachable', 'this node does not accept connections from consumers')
    const session = new EdgeSession({ onFrame: refuseBytes, windowBytes })
    server.serveSession(at, session)
    const over = new AbortController()
    void session.done.catch(() => {}).finally(() => over.abort())
    void sendFrames(source, session, { windowBytes, signal: over.signal }).catch((err: unknown) =>
      session.destroy(
        err instanceof EdgeError ? err : new EdgeError('payload_gone', String(err), { cause: err }),
      ),
    )
  }

  /** Opens the consumer's end of a session; it ends with the attempt. */
  join(peer: EdgePeer, options: SessionOptions, signal?: AbortSignal): EdgeSession {
    const work = this.#begin(peer, signal)
    const session = dialSession(peer, options, work.signal)
    void session.done.catch(() => {}).finally(() => work[Symbol.dispose]())
    return session
  }

  /** Frees everything that an attempt of an edge, or an earlier one, has here: connections, tickets and payload. */
  async release(at: EdgeAttempt): Promise<void> {
    const atWork = this.#atWork.get(at.edgeId)
    if (atWork && atWork.attempt <= at.attempt) atWork.controller.abort()
    this.store.release(at)
    const server = await this.#server?.catch(() => undefined)
    server?.end(at)
  }

  /** Starts a transfer for an attempt and cancels the edge's previous one. `release` cancels it. */
  #begin(
    { edgeId, attempt }: EdgeAttempt,
    signal: AbortSignal | undefined,
  ): Disposable & { signal: AbortSignal } {
    const entry = { attempt, controller: new AbortController() }
    this.#atWork.get(edgeId)?.controller.abort()
    this.#atWork.set(edgeId, entry)
    return {
      signal: signal ? AbortSignal.any([signal, entry.controller.signal]) : entry.controller.signal,
      [Symbol.dispose]: () => {
        if (this.#atWork.get(edgeId) === entry) this.#atWork.delete(edgeId)
      },
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { controller } of this.#atWork.values()) controller.abort()
    const server = await this.#server?.catch(() => undefined)
    if (server) await withdrawKey(server.spkiSha256)
    await server?.[Symbol.asyncDispose]()
    await this.store[Symbol.asyncDispose]()
  }
}

/** Rejects frames from a consumer: a receive-only consumer sends a single empty last frame. */
function refuseBytes({ bytes }: SessionFrame): void {
  if (bytes.length > 0) throw new EdgeError('refused', 'the consumer of this edge must not send data')
}
