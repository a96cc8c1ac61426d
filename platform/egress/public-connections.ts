import { connect, isIP, type Socket } from 'node:net'
import { NameLookup, type HostResolver } from './name-lookup.ts'
import type { EgressPolicy } from './policy.ts'
import { SendError, toSendError } from './public-sender.ts'

const CONNECT_TIMEOUT_MS = 5_000

/** Opens connections to user-supplied hosts under the egress policy; resolves and checks the host each time. */
export class PublicConnections {
  readonly #policy: EgressPolicy
  readonly #names: NameLookup

  constructor(policy: EgressPolicy, resolve?: HostResolver) {
    this.#policy = policy
    this.#names = new NameLookup(resolve)
  }

  /** Connects to a host named as `name` or `name:port`, for example `docs.python.org:443`. Throws `SendError`. */
  open(authority: string, owner: string): Promise<Socket> {
    return this.openUrl(`https://${authority}/`, owner)
  }

  /** Connects to the host of a URL. Throws `SendError`. */
  async openUrl(url: string, owner: string): Promise<Socket> {
    try {
      const destination = this.#policy.parse(url)
      const addresses = await this.#names.addressesOf(destination.hostname, owner).catch((err: unknown) => {
        throw new SendError('name_not_resolved', 'the host name could not be resolved', err)
      })
      if (addresses.length === 0) throw new SendError('name_not_resolved', 'the host name has no address')
      this.#policy.checkAddresses(destination, addresses)
      return await firstOf(addresses, destination.port)
    } catch (err) {
      throw toSendError(err)
    }
  }
}

/** Connects to the first address that can be reached. */
async function firstOf(addresses: readonly string[], port: number): Promise<Socket> {
  let failure: unknown
  for (const address of addresses) {
    try {
      return await connected(address, port)
    } catch (err) {
      failure = err
    }
  }
  throw failure
}

function connected(host: string, port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, family: isIP(host), noDelay: true })
    const timer = setTimeout(
      () => socket.destroy(new SendError('connect_timeout', 'no connection within 5 s')),
      CONNECT_TIMEOUT_MS,
    )
    socket.once('error', reject)
    socket.once('connect', () => {
      socket.off('error', reject)
      resolve(socket)
    })
    socket.once('close', () => clearTimeout(timer))
    socket.once('connect', () => clearTimeout(timer))
  })
}
