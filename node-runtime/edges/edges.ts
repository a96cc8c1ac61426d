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

/** Where payloads are, how large all of them may become, and where their consumers connect. */
export interface EdgesOptions {
  dir: string
  /** 0 chooses by the free disk. */
  limitMb: number
  /** Without an address nobody connects to this node, and its payloads are relayed. */
  listen: EdgeListen | undefined
  /** The networks of producers that this node may connect to, in CIDR notation; empty allows private and public ones. */
  networks?: readonly string[]
}

type ReceiveOptions = Omit<FetchOptions, 'writer'> & { maxBytes: number }

interface FramesOptions {
  maxBytes: number
  windowBytes: number
  signal: AbortSignal
  /** Hears of each frame that was taken, and of the bytes so far. */
  onTaken: (taken: { acknowledged: number; bytes: number }) => void
}

/** A node's ends of edges. What an attempt holds here, of whatever kind, ends with `release`. */
export class Edges implements AsyncDisposable {
  readonly store: PayloadStore
  readonly #listen: EdgeListen | undefined
  readonly #addresses: EdgeAddresses
  /** What goes on for each edge, at whichever end. */
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

  /** Returns the keys of producers on this machine, whose loopback addresses are this node's own. */
  localKeys(): Promise<string[]> {
    return machineKeys()
  }

  /** Returns those candidates of a producer that this node may connect to, whatever the platform has passed on. */
  async allowed(urls: readonly string[], spkiSha256: string): Promise<string[]> {
    const isSameMachine = (await this.localKeys()).includes(spkiSha256)
    return urls.filter((url) => this.#addresses.allows(url, { isSameMachine }))
  }

  /** The server of this node's payloads, started when the first of them is to be fetched; undefined if it may not listen. */
  server(): Promise<EdgeServer | undefined> {
    if (!this.#listen) return Promise.resolve(undefined)
    return (this.#server ??= this.#start(this.#listen).catch((err: unknown) => {
      this.#server = undefined
      throw err
    }))
  }

  async #start(listen: EdgeListen): Promise<EdgeServer> {
    const server = await EdgeServer.start(this.store, listen)
    // Without it consumers on this machine take payloads through the object store.
    await announceKey(server.spkiSha256).catch(() => {})
    return server
  }

  /** Fetches the payload of an attempt into this node's store; dispose it, or hold it, when it is there. */
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

  /** Stores the payload of an attempt for a consumer that cannot connect to this node. */
  async relay(at: EdgeAttempt, upload: RelayUpload, signal?: AbortSignal): Promise<void> {
    using work = this.#begin(at, signal)
    const payload = this.store.find(at)
    if (!payload) throw new EdgeError('payload_gone', 'the payload is no longer on this node')
    await relayPayload(payload, upload, work.signal)
  }

  /** Takes the payload of an attempt as frames, which its producer sends while it makes them. */
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
    // This end has nothing to say.
    await session.send(Buffer.alloc(0), { isLast: true })
    await session.done
    return await writer.finish()
  }

  /** Lets the consumer of an attempt take a payload as frames, until the attempt is released. */
  async sendFrames(at: EdgeAttempt, source: FrameSource, windowBytes: number): Promise<void> {
    const server = await this.server()
    if (!server) throw new EdgeError('unreachable', 'this node listens for no consumers')
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

  /** Ends all that an attempt of an edge, or an earlier one, has here: its connections, its tickets and its payload. */
  async release(at: EdgeAttempt): Promise<void> {
    const atWork = this.#atWork.get(at.edgeId)
    if (atWork && atWork.attempt <= at.attempt) atWork.controller.abort()
    this.store.release(at)
    const server = await this.#server?.catch(() => undefined)
    server?.end(at)
  }

  /** Begins something of an attempt in place of what an earlier one did; it is cancelled by `release`. */
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

/** A consumer that only takes ends its direction at once. */
function refuseBytes({ bytes }: SessionFrame): void {
  if (bytes.length > 0) throw new EdgeError('refused', 'the consumer of this edge has nothing to send')
}
