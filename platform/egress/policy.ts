import { BlockList, isIP } from 'node:net'
import { domainToASCII } from 'node:url'
import { parse as parseName } from 'tldts'
import { type Config, ConfigError } from '../config.ts'

/** Thrown for a destination that is rejected, with a code from a closed vocabulary and a sentence. */
export class EgressRefused extends Error {
  override readonly name = 'EgressRefused'
  readonly reason: EgressReason
  constructor(reason: EgressReason, message: string) {
    super(message)
    this.reason = reason
  }
}
export type EgressReason = 'url_not_allowed' | 'name_not_allowed' | 'address_not_allowed'

/** A URL whose text is valid; its addresses must still be checked on every attempt. */
export interface Destination {
  readonly url: URL
  /** ASCII, lower case, without the trailing dot. */
  readonly hostname: string
  readonly port: number
  /** True if only addresses on the operator's allow list are acceptable: for another port, or a reserved name. */
  readonly needsAllowance: boolean
}

const HTTPS_PORT = 443
const MAX_URL_LENGTH = 2048

/**
 * Suffixes that never belong to a public host (RFC 2606, 6761, 6762, 7686, 8375, 9476, and those of clouds and
 * clusters).
 */
const RESERVED_SUFFIXES = [
  'localhost',
  'localdomain',
  'local',
  'internal',
  'intranet',
  'private',
  'corp',
  'home',
  'lan',
  'test',
  'example',
  'invalid',
  'onion',
  'alt',
  'arpa',
  'metadata.goog',
]

/** IPv4 that is not public unicast (IANA special-purpose registry), and Azure's host service. */
const IPV4_REFUSED = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
  '168.63.129.16/32',
]
/** Only 2000::/3 is allocated as global unicast; the ranges listed below it are not public hosts. */
const IPV6_GLOBAL = '2000::/3'
const IPV6_REFUSED = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']

const refusedV4 = blockList(IPV4_REFUSED)
const globalV6 = blockList([IPV6_GLOBAL])
const refusedV6 = blockList(IPV6_REFUSED)

/** Returns whether an address belongs to a public host. */
export function isPublicAddress(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return !refusedV4.check(address, 'ipv4')
    case 6:
      return globalV6.check(address, 'ipv6') && !refusedV6.check(address, 'ipv6')
    default:
      return false
  }
}

/** The operator's rules: `HEARTH_EGRESS_ALLOW` and `HEARTH_EGRESS_BLOCK`. */
export interface EgressRules {
  /** Entries of the form `CIDR:port`. The policy's constructor throws for an invalid one. */
  allow: readonly string[]
  /** Domains that are refused, including their subdomains. */
  block: readonly string[]
}

/** Decides where requests to user-supplied addresses may go. */
export class EgressPolicy {
  readonly #allowed = new Map<number, BlockList>()
  readonly #blocked: readonly string[]

  constructor({ allow, block }: EgressRules) {
    for (const entry of allow) {
      const match = /^(.+\/\d+):(\d+)$/.exec(entry)
      if (!match)
        throw new ConfigError(
          `HEARTH_EGRESS_ALLOW must contain CIDR:port entries, not ${JSON.stringify(entry)}`,
        )
      const port = Number(match[2])
      const list = this.#allowed.get(port) ?? new BlockList()
      addSubnet(list, (match[1] ?? '').replaceAll(/[[\]]/g, ''))
      this.#allowed.set(port, list)
    }
    this.#blocked = block.map((domain) => domainToASCII(domain.replace(/\.$/, '')))
  }

  /** Checks the text of a URL. Throws `EgressRefused`. */
  parse(text: string): Destination {
    const url = parseStrictly(text)
    const hostname = url.hostname.replace(/\.$/, '')
    checkName(hostname)
    if (this.#blocked.some((domain) => isWithin(hostname, domain))) {
      throw new EgressRefused('name_not_allowed', 'the host name is blocked by the operator')
    }

    const port = url.port === '' ? HTTPS_PORT : Number(url.port)
    const isReserved =
      !isUnderPublicSuffix(hostname) || RESERVED_SUFFIXES.some((suffix) => isWithin(hostname, suffix))
    const needsAllowance = isReserved || port !== HTTPS_PORT
    if (needsAllowance && !this.#allowed.has(port)) {
      throw port === HTTPS_PORT
        ? new EgressRefused(
            'name_not_allowed',
            'the host name is not under a public suffix; expected a name such as hooks.your-company.com',
          )
        : new EgressRefused('url_not_allowed', 'the port must be 443')
    }
    return { url, hostname, port, needsAllowance }
  }

  /** Checks every address that a name resolved to; throws `EgressRefused` if any of them is unsafe. */
  checkAddresses({ port, needsAllowance }: Destination, addresses: readonly string[]): void {
    for (const address of addresses) {
      if (this.#isAllowed(address, port) || (!needsAllowance && isPublicAddress(address))) continue
      throw new EgressRefused(
        'address_not_allowed',
        'the host name resolves to an address that is not public',
      )
    }
  }

  #isAllowed(address: string, port: number): boolean {
    return this.#allowed.get(port)?.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4') ?? false
  }
}

/** Builds the operator's policy. It always blocks the platform's own name, so that deliveries cannot loop back. */
export function openEgressPolicy(config: Config): EgressPolicy {
  const ownUrls = [config.HEARTH_BASE_URL, config.HEARTH_PUBLIC_URL].filter((url) => url !== undefined)
  return new EgressPolicy({
    allow: config.HEARTH_EGRESS_ALLOW,
    block: [...config.HEARTH_EGRESS_BLOCK, ...ownUrls.map((url) => new URL(url).hostname)],
  })
}

/** Checks the raw text first, because the URL parser repairs URLs that other parsers read differently. */
function parseStrictly(text: string): URL {
  const refuse = (message: string): never => {
    throw new EgressRefused('url_not_allowed', message)
  }
  if (text.length > MAX_URL_LENGTH) refuse(`the URL must not be longer than ${MAX_URL_LENGTH} characters`)
  if (/[\p{Cc}\p{Cf}\p{Z}\\]/u.test(text))
    refuse('the URL must not contain spaces, control characters or backslashes')
  const authority =
    /^https:\/\/([^/?#]+)/i.exec(text)?.[1] ?? refuse('the URL must begin with https:// and a host name')
  if (text.includes('#')) refuse('the URL must not have a fragment')
  if (authority.includes('@')) refuse('the URL must not contain a user name or password')
  if (authority.includes('%')) refuse('the host name must not be percent-encoded')
  if (authority.includes('[')) refuse('the host must be a name, not an address')
  if (!/^[^:]+(:[1-9]\d{0,4})?$/.test(authority)) refuse('the port must be 443')
  if (!URL.canParse(text)) refuse('the URL cannot be parsed')
  return new URL(text)
}

/**
 * Checks a DNS name: labels of 1 to 63 letters, digits and hyphens, and not a form that a resolver reads as a number.
 */
function checkName(hostname: string): void {
  const labels = hostname.split('.')
  const last = labels.at(-1) ?? ''
  if (isIP(hostname) || /^(\d+|0x[\da-f]*)$/.test(last)) {
    throw new EgressRefused('url_not_allowed', 'the host must be a name, not an address')
  }
  const isName = hostname.length <= 253 && labels.every((label) => /^(?!-)[a-z\d_-]{1,63}(?<!-)$/.test(label))
  if (!isName) throw new EgressRefused('url_not_allowed', 'the host is not a valid DNS name')
}

/**
 * Returns whether a public resolver can know the name: whether it is under a suffix in the registry part of the Public
 * Suffix List.
 */
function isUnderPublicSuffix(hostname: string): boolean {
  const { isIcann, domain } = parseName(hostname, { extractHostname: false, validateHostname: false })
  return isIcann === true && domain !== null
}

const isWithin = (hostname: string, domain: string): boolean =>
  hostname === domain || hostname.endsWith(`.${domain}`)

function blockList(subnets: readonly string[]): BlockList {
  const list = new BlockList()
  for (const subnet of subnets) addSubnet(list, subnet)
  return list
}

/** Adds a network in CIDR notation. */
export function addSubnet(list: BlockList, cidr: string): void {
  const [network = '', bits] = cidr.split('/')
  list.addSubnet(network, Number(bits), isIP(network) === 6 ? 'ipv6' : 'ipv4')
}
