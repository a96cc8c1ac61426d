import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Config } from '../../platform/config.ts'
import { RemoteAddresses } from '../../platform/remote-address.ts'

const identified = new WeakSet<Socket>()

/** A request with a valid credential has come over this connection. */
export const identify = (socket: Socket): void => void identified.add(socket)

/** Of all connections, as many may be those of strangers. */
const STRANGERS_FRACTION = 4

/**
 * Bounds connections over which no valid credential has come, in total and from one address, by closing the oldest: whoever
 * opens one to use it does so at once, and whoever only holds connections goes first.
 */
class StrangerSockets {
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
    this.#most = Math.ceil(most / STRANGERS_FRACTION)
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

export const boundStrangers = (server: Server, config: Config): void =>
  void new StrangerSockets(server, config)

/** Those that have been identified since are no longer strangers'. */
function closeOldest(strangers: Set<Socket>, most: number): void {
  for (const socket of strangers) {
    if (strangers.size <= most) return
    strangers.delete(socket)
    if (!identified.has(socket)) socket.destroy()
  }
}
