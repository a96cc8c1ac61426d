import { BlockList, isIP, type AddressInfo } from 'node:net'
import { networkInterfaces } from 'node:os'

/** An address at which this node may be reachable, and its scope. */
export interface EdgeCandidate {
  url: string
  scope: 'loopback' | 'private' | 'public'
}

const MAX_CANDIDATES = 8
const FAMILIES = { 4: 'ipv4', 6: 'ipv6' } as const

const listOf = (...networks: readonly (readonly [string, number, 'ipv4' | 'ipv6'])[]): BlockList => {
  const list = new BlockList()
  for (const network of networks) list.addSubnet(...network)
  return list
}
const LOOPBACK = listOf(['127.0.0.0', 8, 'ipv4'], ['::1', 128, 'ipv6'])
const PRIVATE = listOf(
  ['10.0.0.0', 8, 'ipv4'],
  ['100.64.0.0', 10, 'ipv4'],
  ['172.16.0.0', 12, 'ipv4'],
  ['192.168.0.0', 16, 'ipv4'],
  ['fc00::', 7, 'ipv6'],
)
/** Link-local addresses, which are meaningless beyond their network segment. */
const LINK_LOCAL = listOf(['169.254.0.0', 16, 'ipv4'], ['fe80::', 10, 'ipv6'])

/** Returns the addresses of a server that listens on one address, or on all addresses of this machine. */
export function candidatesAt({ address, port }: AddressInfo): EdgeCandidate[] {
  const isEvery = address === '0.0.0.0' || address === '::'
  const addresses = isEvery
    ? Object.values(networkInterfaces()).flatMap((each) => (each ?? []).map((one) => one.address))
    : [address]
  return addresses
    .filter((one) => address !== '0.0.0.0' || isIP(one) === 4)
    .flatMap((one) => candidateAt(one, port))
    .slice(0, MAX_CANDIDATES)
}

function candidateAt(address: string, port: number): EdgeCandidate[] {
  const version = isIP(address)
  if (version !== 4 && version !== 6) return []
  const family = FAMILIES[version]
  if (LINK_LOCAL.check(address, family)) return []
  const scope = LOOPBACK.check(address, family)
    ? 'loopback'
    : PRIVATE.check(address, family)
      ? 'private'
      : 'public'
  return [{ url: `https://${version === 6 ? `[${address}]` : address}:${port}`, scope }]
}
