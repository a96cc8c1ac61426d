import { type EdgeListen, EdgeServer } from './edge-server.ts'
import { fetchPayload, fetchRelayed, type FetchOptions } from './fetch-payload.ts'
import { PayloadStore } from './payload-store.ts'
import type { EdgeAttempt, Payload } from './payload.ts'
import type { EdgePeer } from './pinned-client.ts'

/** The source of a payload: the producer's node, or a signed URL. */
export type PayloadSource = { transport: 'direct'; peer: EdgePeer } | { transport: 'relay'; url: string }

/** Where payloads are, how large all of them may become, and where their consumers connect. */
export interface EdgesOptions {
  dir: string
  /** 0 chooses by the free disk. */
  limitMb: number
  /** Without an address nobody connects to this node, and its payloads are relayed. */
  listen: EdgeListen | undefined
}

type ReceiveOptions = Omit<FetchOptions, 'writer'> & { maxBytes: number }

/** A node's ends of edges. What an attempt holds here, of whatever kind, ends with `release`. */
export class Edges implements AsyncDisposable {
  readonly store: PayloadStore
  readonly #listen: EdgeListen | undefined
  readonly #receiving = new Map<string, { attempt: number; controller: AbortController }>()
  #server: Promise<EdgeServer> | undefined

  static async open({ dir, limitMb, listen }: EdgesOptions): Promise<Edges> {
    return new Edges(await PayloadStore.open({ dir, limitMb }), listen)
  }

  private constructor(store: PayloadStore, listen: EdgeListen | undefined) {
    this.store = store
    this.#listen = listen
  }

  /** The server of this node's payloads, started when the first of them is to be fetched; undefined if it may not listen. */
  server(): Promise<EdgeServer | undefined> {
    if (!this.#listen) return Promise.resolve(undefined)
    return (this.#server ??= EdgeServer.start(this.store, this.#listen).catch((err: unknown) => {
      this.#server = undefined
      throw err
    }))
  }

  /** Fetches the payload of an attempt into this node's store; dispose it, or hold it, when it is there. */
  async receive(
    at: EdgeAttempt,
    source: PayloadSource,
    { maxBytes, signal, ...options }: ReceiveOptions,
  ): Promise<Payload> {
    const controller = new AbortController()
    const entry = { attempt: at.attempt, controller }
    this.#receiving.get(at.edgeId)?.controller.abort()
    this.#receiving.set(at.edgeId, entry)
    try {
      const writer = await this.store.write({ sizeBytes: options.sizeBytes ?? 0, maxBytes })
      const both = signal ? AbortSignal.any([signal, controller.signal]) : controller.signal
      const all = { ...options, writer, signal: both }
      return source.transport === 'direct'
        ? await fetchPayload(source.peer, all)
        : await fetchRelayed(source.url, all)
    } finally {
      if (this.#receiving.get(at.edgeId) === entry) this.#receiving.delete(at.edgeId)
    }
  }

  /** Ends all that an attempt of an edge, or an earlier one, has here: its connections, its tickets and its payload. */
  async release(at: EdgeAttempt): Promise<void> {
    const receiving = this.#receiving.get(at.edgeId)
    if (receiving && receiving.attempt <= at.attempt) receiving.controller.abort()
    this.store.release(at)
    const server = await this.#server?.catch(() => undefined)
    server?.end(at)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { controller } of this.#receiving.values()) controller.abort()
    const server = await this.#server?.catch(() => undefined)
    await server?.[Symbol.asyncDispose]()
    await this.store[Symbol.asyncDispose]()
  }
}
