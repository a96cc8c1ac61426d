import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Config } from '../../platform/config.ts'
import { RemoteAddresses } from '../../platform/remote-address.ts'

const identified = new WeakSet<Socket>()

/** Marks a connection as identified, after a request with a valid credential. */
export const identify = (socket: Socket): void => void identified.add(socket)

/** The fraction of all connections that unidentified ones may be. */
const UNAUTHENTICATED_FRACTION = 4

/**
 * Bounds connections without a valid credential, in total and per address, by closing the oldest. A client that opens a
 * connection to use it identifies itself at once, so idle holders are closed first.
 */
class UnauthenticatedSockets {
  readonly #most: number
  readonly #perAddress: number
  readonly #addresses: RemoteAddresses
  readonly #open = new Set<Socket>()
  readonly #byAddress = new Map<string, Set<Socket>>()

  constructor(
    server: Server,
    {
      HEARTH_MAX_CONNECTIONS: most,
      HEARTH_ADDRESS_CONNECTIONS: perAddress,
      HEARTH_TRUSTED_PROXIES: proxies,
    }: Pick<Config, 'HEARTH_MAX_CONNECTIONS' | 'HEARTH_ADDRESS_CONNECTIONS' | 'HEARTH_TRUSTED_PROXIES'>,
  ) {
    this.#most = Math.ceil(most / UNAUTHENTICATED_FRACTION)
    this.#perAddress = perAddress
    this.#addresses = new RemoteAddresses(proxies)
    server.maxConnections = most
    server.on('connection', (socket: Socket) => this.#add(socket))
  }

  #add(socket: Socket): void {
    const address = this.#addresses.of({ socket, headers: {} })
    if (this.#addresses.isProxy(address)) return
    let here = this.#byAddress.get(address)
    if (!here) this.#byAddress.set(address, (here = new Set()))
    here.add(socket)
    this.#open.add(socket)
    socket.once('close', () => {
      this.#open.delete(socket)
      here.delete(socket)
      if (here.size === 0 && this.#byAddress.get(address) === here) this.#byAddress.delete(address)
    })
    closeOldest(here, this.#perAddress)
    closeOldest(this.#open, this.#most)
  }
}

export const boundUnauthenticated = (server: Server, config: Config): void =>
  void new UnauthenticatedSockets(server, config)

/** Connections that have been identified since no longer count. */
function closeOldest(sockets: Set<Socket>, most: number): void {
  for (const socket of sockets) {
    if (sockets.size <= most) return
    sockets.delete(socket)
    if (!identified.has(socket)) socket.destroy()
  }
}
