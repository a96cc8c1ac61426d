import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  verify,
} from 'node:crypto'

/** The largest accepted difference between a node's clock and ours. */
export const MAX_SKEW_MS = 300_000

/** The signed parts of a node's request. `path` is as sent on the request line, with its query. */
export interface SignedParts {
  method: string
  path: string
  timestamp: number
  accountId: string
  nodeId: string
  body: Uint8Array | string
}

/** The parts that are known before the body has arrived, with the digest that the sender declares. */
export type SignedHead = Omit<SignedParts, 'body'> & { bodySha256: string }

/** The headers of a node's signature. */
export type SignatureHeaders = {
  'x-account-id': string
  'x-node-id': string
  'x-node-timestamp': string
  'x-node-signature': string
  /** Lets a gateway verify the signature before it reads the body. */
  'x-node-body-sha256': string
}

export const sha256Hex = (body: Uint8Array | string): string =>
  createHash('sha256').update(body).digest('hex')

const signedText = ({ method, path, timestamp, accountId, nodeId, bodySha256 }: SignedHead) =>
  ['v1', method, path, timestamp, accountId, nodeId, bodySha256].join('\n')

/** Signs one request with the headers of `X-Node-Signature`. */
export function signRequest(key: KeyObject, parts: SignedParts): SignatureHeaders {
  const bodySha256 = sha256Hex(parts.body)
  return {
    'x-account-id': parts.accountId,
    'x-node-id': parts.nodeId,
    'x-node-timestamp': String(parts.timestamp),
    'x-node-signature': sign(null, Buffer.from(signedText({ ...parts, bodySha256 })), key).toString('base64'),
    'x-node-body-sha256': bodySha256,
  }
}

export type SignatureFault = 'skew' | 'signature'

/**
 * Verifies the timestamp and the signature. Returns the digest that the caller must store until `expiresAt`, so that a
 * replay is rejected.
 */
export function verifyRequest(
  publicKey: KeyObject,
  parts: SignedHead,
  signature: string,
  now = Date.now(),
): { fault: SignatureFault } | { fault?: never; digest: Buffer; expiresAt: Date } {
  if (!(Math.abs(now - parts.timestamp) <= MAX_SKEW_MS)) return { fault: 'skew' }

  const text = signedText(parts)
  const bytes = Buffer.from(signature, 'base64')
  if (bytes.length !== 64 || !verify(null, Buffer.from(text), publicKey, bytes)) return { fault: 'signature' }
  // Hash the message, not the signature: the same message with a re-encoded signature is still a replay.
  const digest = createHash('sha256').update(text).digest()
  return { digest, expiresAt: new Date(parts.timestamp + MAX_SKEW_MS) }
}

/** Creates a new identity: the private key as PKCS #8 PEM, the public one as raw base64. */
export function newNodeKey(): { privatePem: string; publicKey: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  return {
    privatePem: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    publicKey: rawPublicKey(publicKey),
  }
}

export const privateKeyFromPem = (pem: string): KeyObject => createPrivateKey(pem)

/** Returns the raw base64 public key of either kind of key. */
export function rawPublicKey(key: KeyObject): string {
  const { x } = (key.type === 'private' ? createPublicKey(key) : key).export({ format: 'jwk' })
  return Buffer.from(x ?? '', 'base64url').toString('base64')
}

/** Returns undefined when the text is not 32 bytes of base64. */
export function publicKeyFromRaw(raw: string): KeyObject | undefined {
  const bytes = Buffer.from(raw, 'base64')
  if (bytes.length !== 32) return undefined
  return createPublicKey({
    key: { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') },
    format: 'jwk',
  })
}
