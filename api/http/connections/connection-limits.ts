import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { ApiError } from '../../../domain/errors.ts'
import type { Config } from '../../../platform/config.ts'
import { RemoteAddresses } from '../../../platform/remote-address.ts'

/** The limit for unidentified connections is the limit for all connections divided by this. */
const UNAUTHENTICATED_FRACTION = 4
/**
 * One account's limit is the limit for all connections divided by this, or `MIN_ACCOUNT_CONNECTIONS` if that is more.
 */
const ACCOUNT_FRACTION = 10
const MIN_ACCOUNT_CONNECTIONS = 16
/** The reserve for operators and nodes: all connections divided by this. Unidentified connections may use it. */
const RESERVE_FRACTION = 20
const RETRY_AFTER_S = 5

/** The caller behind a connection. */
export interface ConnectionOwner {
  /** The account or node whose connections count together; undefined for operators, who have no limit. */
  readonly key: string | undefined
  /** True if the caller may use the reserve: operators, evaluators and nodes may. */
  readonly isPlatform: boolean
}

interface Connection {
  readonly limits: ConnectionLimits
  isOwned: boolean
}

const connections = new WeakMap<Duplex, Connection>()

/**
 * Records the owner of a connection after a request with a valid credential. Throws `rate_limited` for a new connection
 * if its account has too many, or if only the reserve is left; the response closes the connection.
 */
export function identify(socket: Duplex, owner: ConnectionOwner): void {
  const connection = connections.get(socket)
  // A proxy's connection carries requests from many accounts; the first account becomes its owner.
  if (connection && !connection.isOwned) connection.limits.own(socket, connection, owner)
}

/**
 * Limits three groups of connections. Connections without a valid credential are limited in total and per address by
 * closing the oldest, because a real client identifies itself at once. The limit per account prevents one account from
 * locking out the others. The limit for all accounts leaves free connections for operators and nodes.
 */
class ConnectionLimits {
  readonly #most: number
  readonly #reserve: number
  readonly #perAddress: number
  readonly #perOwner: number
  readonly #addresses: RemoteAddresses
  readonly #unidentified = new Set<Duplex>()
  readonly #byAddress = new Map<string, Set<Duplex>>()
  readonly #byOwner = new Map<string, number>()
  #open = 0
  #ofPlatform = 0

  constructor(server: Server, config: LimitsConfig) {
    this.#most = config.HEARTH_MAX_CONNECTIONS
    this.#reserve = Math.ceil(this.#most / RESERVE_FRACTION)
    this.#perAddress = config.HEARTH_ADDRESS_CONNECTIONS
    this.#perOwner = Math.max(MIN_ACCOUNT_CONNECTIONS, Math.ceil(this.#most / ACCOUNT_FRACTION))
    this.#addresses = new RemoteAddresses(config.HEARTH_TRUSTED_PROXIES)
    server.maxConnections = this.#most
    server.on('connection', (socket: Socket) => this.#add(socket))
  }

  /** Counts a connection for its owner; throws if the owner is at its limit. */
  own(socket: Duplex, connection: Connection, { key, isPlatform }: ConnectionOwner): void {
    const open = key === undefined ? 0 : (this.#byOwner.get(key) ?? 0)
    if (open >= this.#perOwner)
      throw tooMany(`an account or node may have at most ${this.#perOwner} connections`)
    // Platform connections don't count against the accounts' share.
    const ofAccounts = this.#open - this.#unidentified.size - this.#ofPlatform
    if (!isPlatform && ofAccounts >= this.#most - this.#reserve)
      throw tooMany('this gateway has no free connections')
    if (key !== undefined) this.#byOwner.set(key, open + 1)
    if (isPlatform) this.#ofPlatform += 1
    connection.isOwned = true
    this.#unidentified.delete(socket)
    socket.once('close', () => {
      if (isPlatform) this.#ofPlatform -= 1
      if (key !== undefined) this.#release(key)
    })
  }

  #release(key: string): void {
    const remaining = (this.#byOwner.get(key) ?? 1) - 1
    if (remaining === 0) this.#byOwner.delete(key)
    else this.#byOwner.set(key, remaining)
  }

  #add(socket: Socket): void {
    this.#open += 1
    socket.once('close', () => {
      this.#open -= 1
      this.#unidentified.delete(socket)
    })
    const address = this.#addresses.of({ socket, headers: {} })
    if (this.#addresses.isProxy(address)) return
    connections.set(socket, { limits: this, isOwned: false })
    let here = this.#byAddress.get(address)
    if (!here) this.#byAddress.set(address, (here = new Set()))
    here.add(socket)
    this.#unidentified.add(socket)
    socket.once('close', () => {
      here.delete(socket)
      if (here.size === 0 && this.#byAddress.get(address) === here) this.#byAddress.delete(address)
    })
    closeOldest(here, this.#perAddress)
    closeOldest(this.#unidentified, Math.ceil(this.#most / UNAUTHENTICATED_FRACTION))
    // Leave one free, or the operating system would refuse the next connection, even an operator's.
    const identified = this.#open - this.#unidentified.size
    closeOldest(this.#unidentified, Math.max(1, this.#most - identified - 1))
  }
}

type LimitsConfig = Pick<
  Config,
  'HEARTH_MAX_CONNECTIONS' | 'HEARTH_ADDRESS_CONNECTIONS' | 'HEARTH_TRUSTED_PROXIES'
>

export const boundConnections = (server: Server, config: LimitsConfig): void =>
  void new ConnectionLimits(server, config)

/** Skips connections that have been identified in the meantime. */
function closeOldest(sockets: Set<Duplex>, most: number): void {
  for (const socket of sockets) {
    if (sockets.size <= most) return
    sockets.delete(socket)
    if (!connections.get(socket)?.isOwned) socket.destroy()
  }
}

function tooMany(why: string): ApiError {
  return new ApiError('rate_limited', `${why}; close some, or try again`, {
    details: { retry_after_s: RETRY_AFTER_S },
    headers: { 'retry-after': String(RETRY_AFTER_S), connection: 'close' },
  })
}
