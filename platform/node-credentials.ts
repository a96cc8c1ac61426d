import { createHash, createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import { TOKEN_PREFIX } from '../domain/token-prefixes.ts'
import { ConfigError } from './config.ts'

/** The lifetime of a credential; nodes renew it well before it expires. */
export const CREDENTIAL_TTL_MS = 600_000

const ID_BYTES = 4
const MAC_BYTES = 32
const TOKEN = new RegExp(`^${TOKEN_PREFIX.nodeCredential}([\\w-]+)$`)

interface RingKey {
  id: Buffer
  key: Buffer
}

/** The node that a credential identifies, and its expiry. */
export interface Credential {
  nodeId: string
  /** Epoch milliseconds. */
  expiresAt: number
}

/**
 * The credentials of nodes at the Temporal gate: a short-lived one per node, and task tokens that are bound to the node
 * they were handed to. Nothing is stored: any process with `HEARTH_ENCRYPTION_KEYS` can create and check both, with
 * keys derived for this purpose. The first key signs and all keys verify, so keys can be rotated.
 */
export class NodeCredentials {
  readonly #keys: readonly RingKey[]
  readonly #current: RingKey

  constructor(keys: readonly string[]) {
    this.#keys = keys.map(derive)
    const [current] = this.#keys
    if (!current)
      throw new ConfigError('HEARTH_ENCRYPTION_KEYS must contain at least one base64 key of 32 bytes')
    this.#current = current
  }

  issue(credential: Credential): string {
    const body = Buffer.from(JSON.stringify(credential))
    return `${TOKEN_PREFIX.nodeCredential}${this.#sign('credential', body).toString('base64url')}`
  }

  /** Returns undefined for a token with an invalid signature; the caller must check `expiresAt`. */
  read(token: string): Credential | undefined {
    const [, text] = TOKEN.exec(token) ?? []
    const body = text === undefined ? undefined : this.#check('credential', Buffer.from(text, 'base64url'))
    return body && (JSON.parse(body.toString()) as Credential)
  }

  /** Binds a task token to a node, so that no other node can use it. */
  bind(nodeId: string, taskToken: Uint8Array): Buffer {
    return this.#sign(`task ${nodeId}`, taskToken)
  }

  /** Returns Temporal's own task token; undefined when it was not bound to this node. */
  unbind(nodeId: string, bound: Uint8Array): Buffer | undefined {
    return this.#check(`task ${nodeId}`, Buffer.from(bound.buffer, bound.byteOffset, bound.byteLength))
  }

  /** The format is key id, code, body. */
  #sign(purpose: string, body: Uint8Array): Buffer {
    return Buffer.concat([this.#current.id, codeOf(this.#current, purpose, body), body])
  }

  #check(purpose: string, signed: Buffer): Buffer | undefined {
    const body = signed.subarray(ID_BYTES + MAC_BYTES)
    if (signed.length <= ID_BYTES + MAC_BYTES) return undefined
    const id = signed.subarray(0, ID_BYTES)
    const code = signed.subarray(ID_BYTES, ID_BYTES + MAC_BYTES)
    const isOurs = this.#keys.some(
      (key) => key.id.equals(id) && timingSafeEqual(codeOf(key, purpose, body), code),
    )
    return isOurs ? body : undefined
  }
}

const codeOf = ({ key }: RingKey, purpose: string, body: Uint8Array): Buffer =>
  createHmac('sha256', key).update(`${purpose}\0`).update(body).digest()

function derive(text: string): RingKey {
  const secret = Buffer.from(text, 'base64')
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'hearth temporal gate', 32))
  return { id: createHash('sha256').update(key).digest().subarray(0, ID_BYTES), key }
}
