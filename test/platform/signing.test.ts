import assert from 'node:assert/strict'
import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import {
  newNodeKey,
  privateKeyFromPem,
  publicKeyFromRaw,
  rawPublicKey,
  signRequest,
  sha256Hex,
  type SignedParts,
  verifyRequest,
} from '../../platform/signing.ts'

const { privatePem, publicKey: raw } = newNodeKey()
const key = privateKeyFromPem(privatePem)
const publicKey = publicKeyFromRaw(raw)!
const now = Date.now()
const parts: SignedParts = {
  method: 'POST',
  path: '/api/v1/leases/x:renew?a=1',
  timestamp: now,
  accountId: 'acct',
  nodeId: 'node',
  body: '{"lease_s":30}',
}
const signature = signRequest(key, parts)['x-node-signature']

const verifySigned = (by: KeyObject, signed: SignedParts, text: string, at?: number) =>
  verifyRequest(by, { ...signed, bodySha256: sha256Hex(signed.body) }, text, at)

describe('node signatures', () => {
  it('are Ed25519 signatures over the lines that the design specifies', () => {
    const digest = createHash('sha256').update('{"lease_s":30}').digest('hex')
    const text = `v1\nPOST\n/api/v1/leases/x:renew?a=1\n${now}\nacct\nnode\n${digest}`

    assert.equal(signature, sign(null, Buffer.from(text), key).toString('base64'))
  })

  it('verify for the message, and yield a digest by which to remember it', () => {
    const checked = verifySigned(publicKey, parts, signature, now)

    assert.ok(checked.fault === undefined)
    assert.equal(checked.digest.length, 32)
    assert.equal(checked.expiresAt.getTime(), now + 300_000)
  })

  const changed: [string, Partial<SignedParts>][] = [
    ['method', { method: 'GET' }],
    ['path', { path: '/api/v1/leases/x:renew?a=2' }],
    ['time', { timestamp: now + 1 }],
    ['account', { accountId: 'other' }],
    ['node', { nodeId: 'other' }],
    ['body', { body: '{"lease_s":31}' }],
  ]
  for (const [what, change] of changed) {
    it(`do not verify for a different ${what}`, () => {
      assert.equal(verifySigned(publicKey, { ...parts, ...change }, signature, now).fault, 'signature')
    })
  }

  it('do not verify with a different key, or when they are malformed', () => {
    const other = publicKeyFromRaw(newNodeKey().publicKey)!

    assert.equal(verifySigned(other, parts, signature, now).fault, 'signature')
    assert.equal(verifySigned(publicKey, parts, '', now).fault, 'signature')
    assert.equal(verifySigned(publicKey, parts, 'AAAA', now).fault, 'signature')
  })

  it('are valid for five minutes in both directions', () => {
    assert.equal(verifySigned(publicKey, parts, signature, now + 300_000).fault, undefined)
    assert.equal(verifySigned(publicKey, parts, signature, now - 300_000).fault, undefined)
    assert.equal(verifySigned(publicKey, parts, signature, now + 300_001).fault, 'skew')
    assert.equal(verifySigned(publicKey, parts, signature, now - 300_001).fault, 'skew')
    assert.equal(verifySigned(publicKey, { ...parts, timestamp: Number.NaN }, signature, now).fault, 'skew')
  })

  it('use keys that survive a text round trip', () => {
    assert.equal(rawPublicKey(key), raw)
    assert.equal(rawPublicKey(generateKeyPairSync('ed25519').publicKey).length, 44)
    assert.equal(publicKeyFromRaw('c2hvcnQ='), undefined)
  })
})
