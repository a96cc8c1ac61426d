import { isIP } from 'node:net'
import { resolve } from 'node:path'
import { MAX_TIMEOUT_S } from '../../schemas/nodes/lease-terms.ts'
import { TOOL_KINDS, TOOL_STABILITIES } from '../../schemas/tool-vocabularies.ts'

/** A kind of setting, which parses the text of an environment variable. */
export interface Kind<T = unknown> {
  /** A phrase for the expected value, which ends the error's sentence. */
  readonly expected: string
  /** Returns the value, or `undefined` if the text is invalid. */
  readonly read: (text: string) => T | undefined
  /**
   * Treats an empty variable as unset: an empty path would mean the current folder, and an empty host every interface.
   */
  readonly emptyIsAbsent?: true
  /** Keeps errors from quoting an invalid value, which may be a secret. */
  readonly isSecret?: true
}

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'silent']
const FEATURES = ['webhooks']
const ACTION_KINDS: readonly string[] = TOOL_KINDS
const STABILITIES: readonly string[] = TOOL_STABILITIES
const SLUG_PATTERN = /^[a-z0-9._*-]{1,100}$/
const FLAGS = new Map([
  ['1', true],
  ['true', true],
  ['0', false],
  ['false', false],
  ['', false],
])
const NETWORK = /^\[?([\da-f.:]+)\]?\/(\d{1,3}):(\d{1,5})$/i
const DOMAIN = /^(?=.{1,253}$)[\p{L}\p{N}_-]{1,63}(\.[\p{L}\p{N}_-]{1,63})*\.?$/u
const IMAGE = /^(?:[^@\s]+@)?sha256:[0-9a-f]{64}$/
const ADDRESS = /^([\w.-]+|\[[\da-f:.]+\]):(\d{1,5})$/i
const MAX_PORT = 65_535

/** The kinds of settings, by the names that `docs/configuration.md` uses. */
export const KINDS = {
  text: { expected: 'text', read: (text: string) => text },
  path: { expected: 'a path', read: (text: string) => resolve(text), emptyIsAbsent: true },
  level: { expected: `one of ${LEVELS.join(', ')}`, read: texts((text) => LEVELS.includes(text)) },
  flag: { expected: '0 or 1', read: (text: string) => FLAGS.get(text) },

  integer: { expected: 'a whole number of at least 0', read: numbers(/^\d{1,12}$/) },
  count: { expected: 'a whole number of at least 1', read: numbers(/^[1-9]\d{0,11}$/) },
  patience: {
    expected: `a whole number from 1 to ${MAX_TIMEOUT_S}`,
    read: numbers(/^[1-9]\d{0,2}$/, MAX_TIMEOUT_S),
  },
  amount: {
    expected: 'a number above 0, for example 0.01',
    read: numbers(/^(?=.*[1-9])\d{1,9}(\.\d{1,9})?$/),
  },
  port: { expected: 'a port from 0 to 65535', read: numbers(/^\d{1,5}$/, MAX_PORT) },

  host: {
    expected: 'an IP address or a host name',
    read: texts((text) => isIP(text) > 0 || DOMAIN.test(text)),
    emptyIsAbsent: true,
  },
  address: {
    expected: 'host:port, without a scheme',
    read: texts((text) => text === '' || isAddress(text)),
  },
  url: {
    expected: 'a URL with http:// or https://',
    read: (text: string) => (hasScheme(text, /^https?:$/) ? text.replace(/\/$/, '') : undefined),
  },
  database: {
    expected: 'a URL with postgres://',
    read: texts((text) => hasScheme(text, /^postgres(ql)?:$/)),
    isSecret: true,
  },

  list: { expected: 'comma-separated names', read: lists(() => true) },
  slugs: {
    expected: 'comma-separated names of tools, with * for any characters',
    read: lists((item) => SLUG_PATTERN.test(item)),
  },
  kinds: {
    expected: `empty or some of ${ACTION_KINDS.join(', ')}`,
    read: lists((item) => ACTION_KINDS.includes(item)),
  },
  stabilities: {
    expected: `empty or some of ${STABILITIES.join(', ')}`,
    read: lists((item) => STABILITIES.includes(item)),
  },
  features: {
    expected: `empty or ${FEATURES.join(', ')}`,
    read: lists((item) => FEATURES.includes(item)),
  },
  keys: {
    expected: 'base64 keys of 32 bytes each',
    read: lists((key) => Buffer.from(key, 'base64').length === 32),
    isSecret: true,
  },
  image: {
    expected: 'an image by digest, name@sha256:... or sha256:...',
    read: texts((text) => IMAGE.test(text)),
    emptyIsAbsent: true,
  },
  networks: { expected: 'comma-separated CIDR:port entries', read: lists(isNetwork) },
  subnets: {
    expected: 'comma-separated CIDR networks',
    // `isNetwork` expects a port, so add one in the IPv4 or the IPv6 form.
    read: lists((item) => isNetwork(`${item}:0`) || isNetwork(`[${item.replace('/', ']/')}:0`)),
  },
  domains: { expected: 'comma-separated domain names', read: lists((item) => DOMAIN.test(item)) },
} as const satisfies Record<string, Kind>

export type KindName = keyof typeof KINDS
export type ValueOf<K extends KindName> = Exclude<ReturnType<(typeof KINDS)[K]['read']>, undefined>

function texts(isRight: (text: string) => boolean) {
  return (text: string): string | undefined => (isRight(text) ? text : undefined)
}

function numbers(pattern: RegExp, most = Number.MAX_SAFE_INTEGER) {
  return (text: string): number | undefined =>
    pattern.test(text) && Number(text) <= most ? Number(text) : undefined
}

function lists(isRight: (item: string) => boolean) {
  return (text: string): string[] | undefined => {
    const items = text
      .split(',')
      .map((item) => item.trim())
      .filter(Boolean)
    return items.every(isRight) ? items : undefined
  }
}

function hasScheme(text: string, scheme: RegExp): boolean {
  const url = URL.parse(text)
  return url !== null && scheme.test(url.protocol)
}

function isNetwork(text: string): boolean {
  const [, address = '', bits, port] = NETWORK.exec(text) ?? []
  const widest = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1
  return Number(bits) <= widest && Number(port) <= MAX_PORT
}

function isAddress(text: string): boolean {
  const [, , port] = ADDRESS.exec(text) ?? []
  return port !== undefined && Number(port) <= MAX_PORT
}
