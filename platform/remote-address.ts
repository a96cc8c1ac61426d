import type { IncomingMessage } from 'node:http'
import { BlockList, isIPv4, isIPv6 } from 'node:net'

/** Determines the client address of a request: its connection's, or the one that a trusted proxy reports. */
export class RemoteAddresses {
  readonly #proxies = new BlockList()
  readonly #trustsAny: boolean

  /** @param networks the networks of proxies whose `X-Forwarded-For` is trusted, in CIDR notation. */
  constructor(networks: readonly string[]) {
    this.#trustsAny = networks.length > 0
    for (const network of networks) {
      const [address = '', bits] = network.split('/')
      this.#proxies.addSubnet(address, Number(bits), isIPv4(address) ? 'ipv4' : 'ipv6')
    }
  }

  /** Returns the address; an IPv6 /64 counts as one address, because its owner controls all of it. */
  of({ socket, headers }: Pick<IncomingMessage, 'socket' | 'headers'>): string {
    const direct = plain(socket.remoteAddress ?? '')
    if (!this.isProxy(direct)) return grouped(direct)
    // The list is read from the right, because entries further left come from earlier, untrusted hops.
    const hops = String(headers['x-forwarded-for'] ?? '').split(',')
    for (const hop of hops.toReversed()) {
      const address = plain(hop.trim())
      if (!isIPv4(address) && !isIPv6(address)) break
      if (!this.isProxy(address)) return grouped(address)
    }
    return grouped(direct)
  }

  isProxy(address: string): boolean {
    if (!this.#trustsAny) return false
    const known = plain(address)
    if (isIPv4(known)) return this.#proxies.check(known, 'ipv4')
    return isIPv6(known) && this.#proxies.check(known, 'ipv6')
  }
}

/** Dual-stack sockets report IPv4 addresses as `::ffff:1.2.3.4`. */
const plain = (address: string): string =>
  address.startsWith('::ffff:') && isIPv4(address.slice(7)) ? address.slice(7) : address

function grouped(address: string): string {
  if (!isIPv6(address)) return address
  const [head = '', tail] = address.split('::', 2)
  const front = head === '' ? [] : head.split(':')
  const back = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? [] : Array.from({ length: 8 - front.length - back.length }, () => '0')
  return [...front, ...zeros, ...back].slice(0, 4).join(':')
}
