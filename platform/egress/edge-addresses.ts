import { BlockList, isIP } from 'node:net'
import { addSubnet, isPublicAddress } from './policy.ts'

const LOOPBACK = listOf(['127.0.0.0/8', '::1/128'])
/** Private networks, within one site or one provider's tenant. */
const PRIVATE = listOf(['10.0.0.0/8', '100.64.0.0/10', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'])
/** Cloud metadata services that hand out credentials, within the networks above: Alibaba, AWS and Google. */
const METADATA = listOf(['100.100.100.200/32', 'fd00:ec2::/32', 'fd20:ce::254/128'])
/** Exactly the form that node-runtime/edges/candidates.ts writes, and none that a URL parser would repair. */
const CANDIDATE = /^https:\/\/(?:(\d{1,3}(?:\.\d{1,3}){3})|\[([\da-f:]{2,39})\]):([1-9]\d{0,4})$/

/** The range from which a candidate's address can be reached. */
export type EdgeScope = 'loopback' | 'private' | 'public'

/** Returns the IP address of a candidate; undefined for a name, and for an address that is not in canonical form. */
export function addressOfCandidate(url: string): string | undefined {
  const [, v4, v6, port = ''] = CANDIDATE.exec(url) ?? []
  const address = v4 ?? v6 ?? ''
  if (isIP(address) === 0 || Number(port) > 65_535) return undefined
  if (!URL.canParse(url)) return undefined
  // The parser writes the canonical form of an address and omits port 443.
  const canonical = `${new URL(url).origin}${port === '443' ? ':443' : ''}`
  return url === canonical ? address : undefined
}

/**
 * Returns the scope of an address at which nodes may offer payloads; undefined for others, such as link-local
 * addresses.
 */
export function edgeScopeOf(address: string): EdgeScope | undefined {
  const family = familyOf(address)
  // These embed an IPv4 address, and a `BlockList` would match the embedded address.
  if (address.startsWith('::') && address !== '::1') return undefined
  if (LOOPBACK.check(address, family)) return 'loopback'
  if (METADATA.check(address, family)) return undefined
  if (PRIVATE.check(address, family)) return 'private'
  return isPublicAddress(address) ? 'public' : undefined
}

/** Decides where nodes may offer payloads and connect to, according to the operator's `HEARTH_EDGE_NETWORKS`. */
export class EdgeAddresses {
  readonly #networks: BlockList | undefined

  /** @param networks in CIDR notation; if empty, private and public networks are allowed. */
  constructor(networks: readonly string[]) {
    this.#networks = networks.length > 0 ? listOf(networks) : undefined
  }

  /**
   * Returns whether a node may connect to a candidate. Loopback is the consumer's own machine, so it is allowed only if
   * the producer runs there too. The operator's networks never include link-local or metadata addresses.
   */
  allows(url: string, { isSameMachine }: { isSameMachine: boolean }): boolean {
    const address = addressOfCandidate(url)
    const scope = address === undefined ? undefined : edgeScopeOf(address)
    if (address === undefined || scope === undefined) return false
    if (scope === 'loopback') return isSameMachine
    return this.#networks?.check(address, familyOf(address)) ?? true
  }
}

const familyOf = (address: string): 'ipv4' | 'ipv6' => (isIP(address) === 6 ? 'ipv6' : 'ipv4')

function listOf(networks: readonly string[]): BlockList {
  const list = new BlockList()
  for (const network of networks) addSubnet(list, network)
  return list
}
