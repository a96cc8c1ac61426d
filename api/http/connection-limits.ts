import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { ApiError } from '../../domain/errors.ts'
import type { Config } from '../../platform/config.ts'
import { RemoteAddresses } from '../../platform/remote-address.ts'

/** The fraction of all connections that unidentified ones may be. */
const UNAUTHENTICATED_FRACTION = 4
/** The fraction of all connections that those of one account may be, and the least number that they may be. */
const ACCOUNT_FRACTION = 10
const MIN_ACCOUNT_CONNECTIONS = 16
/** The fraction of all connections that only operators and nodes may use; unidentified ones may pass through it. */
const RESERVE_FRACTION = 20
const RETRY_AFTER_S = 5

/** Who uses a connection. */
export interface ConnectionOwner {
  /** The account or node whose connections are counted together; undefined for operators, who have no limit. */
  readonly key: string | undefined
  /** Whether the reserve is for it: operators, evaluators and nodes. */
  readonly isPlatform: boolean
}

interface Connection {
  readonly limits: ConnectionLimits
  isOwned: boolean
}

const connections = new WeakMap<Duplex, Connection>()

/**
 * Notes who uses a connection, after a request with a valid credential. Throws `rate_limited` for a new connection of an
 * account that has too many, or when only those of operators and nodes are left; the response closes the connection.
 */
export function identify(socket: Duplex, owner: ConnectionOwner): void {
  const connection = connections.get(socket)
  // A proxy's connection carries the requests of many accounts, and the first one counts.
  if (connection && !connection.isOwned) connection.limits.own(socket, connection, owner)
}

/**
 * Bounds connections: those without a valid credential, in total and per address, by closing the oldest, because a
 * client that opens a connection to use it identifies itself at once; those of one account, so that none can shut out
 * the others; and those of all accounts, so that operators and nodes always find a free one.
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

  /** Counts a connection for its owner; throws when the owner may have no more. */
  own(socket: Duplex, connection: Connection, { key, isPlatform }: ConnectionOwner): void {
    const own = key === undefined ? 0 : (this.#byOwner.get(key) ?? 0)
    if (own >= this.#perOwner) throw tooMany(`an account or a node may have ${this.#perOwner} connections`)
    // What the platform uses now is not taken from the accounts.
    const ofAccounts = this.#open - this.#unidentified.size - this.#ofPlatform
    if (!isPlatform && ofAccounts >= this.#most - this.#reserve)
      throw tooMany('this gateway has no free connection')
    if (key !== undefined) this.#byOwner.set(key, own + 1)
    if (isPlatform) this.#ofPlatform += 1
    connection.isOwned = true
    this.#unidentified.delete(socket)
    socket.once('close', () => {
      if (isPlatform) this.#ofPlatform -= 1
      if (key !== undefined) this.#release(key)
    })
  }

  #release(key: string): void {
    const left = (this.#byOwner.get(key) ?? 1) - 1
    if (left === 0) this.#byOwner.delete(key)
    else this.#byOwner.set(key, left)
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
    // One has to be free for the next connection, or the system would refuse an operator's.
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

/** Connections that have been identified since no longer count. */
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
