import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { ConfigError } from './config.ts'

const VERSION = 1
const NONCE_BYTES = 12
const TAG_BYTES = 16
const ID_BYTES = 4
const HEAD_BYTES = 1 + ID_BYTES + NONCE_BYTES

interface RingKey {
  id: Buffer
  key: Buffer
}

/**
 * Encryption at rest with AES-256-GCM under a ring of keys: the first encrypts, all decrypt, so keys can be rotated.
 * `context` binds a ciphertext to its row, so that it cannot be decrypted after a move to another row.
 */
export class SecretBox {
  readonly #keys: readonly RingKey[]
  readonly #current: RingKey

  constructor(keys: readonly string[]) {
    this.#keys = keys.map(parseKey)
    const [current] = this.#keys
    if (!current)
      throw new ConfigError('HEARTH_ENCRYPTION_KEYS must contain at least one base64 key of 32 bytes')
    this.#current = current
  }

  /** The format is version, key id, nonce, ciphertext, tag. */
  seal(plain: string | Uint8Array, context: string): Buffer {
    const { id, key } = this.#current
    const nonce = randomBytes(NONCE_BYTES)
    const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(context))
    const text = Buffer.concat([cipher.update(plain), cipher.final()])
    return Buffer.concat([Buffer.of(VERSION), id, nonce, text, cipher.getAuthTag()])
  }

  /** The prefix of ciphertexts from the first key; all others must be re-encrypted after a rotation. */
  get currentPrefix(): Buffer {
    return Buffer.concat([Buffer.of(VERSION), this.#current.id])
  }

  /** Throws if the ciphertext was changed or belongs elsewhere, or if its key has been removed from the ring. */
  open(sealed: Buffer, context: string): Buffer {
    const id = sealed.subarray(1, 1 + ID_BYTES)
    const key = this.#keys.find((other) => other.id.equals(id))?.key
    if (sealed[0] !== VERSION || sealed.length < HEAD_BYTES + TAG_BYTES || !key) {
      throw new Error('no key in HEARTH_ENCRYPTION_KEYS can decrypt this text')
    }
    const nonce = sealed.subarray(1 + ID_BYTES, HEAD_BYTES)
    const end = sealed.length - TAG_BYTES
    const decipher = createDecipheriv('aes-256-gcm', key, nonce)
    decipher.setAAD(Buffer.from(context)).setAuthTag(sealed.subarray(end))
    return Buffer.concat([decipher.update(sealed.subarray(HEAD_BYTES, end)), decipher.final()])
  }
}

/** Returns the ids of keys, in the form that `hearth backup` stores: they identify a key but do not reveal it. */
export const keyIdsOf = (keys: readonly string[]): string[] =>
  keys.map((key) => parseKey(key).id.toString('hex'))

function parseKey(text: string): RingKey {
  const key = Buffer.from(text, 'base64')
  if (key.length !== 32) throw new ConfigError('HEARTH_ENCRYPTION_KEYS must be base64 keys of 32 bytes each')
  return { id: createHash('sha256').update(key).digest().subarray(0, ID_BYTES), key }
}
