import assert from 'node:assert/strict'
import { SecretBox } from '../../platform/secret-box.ts'

const key = (byte: number): string => Buffer.alloc(32, byte).toString('base64')

describe('the secret box', () => {
  it('opens what it sealed, but only for the same context', () => {
    const box = new SecretBox([key(1)])
    const sealed = box.seal('whsec_1', 'row/1')

    assert.equal(box.open(sealed, 'row/1').toString(), 'whsec_1')
    assert.throws(() => box.open(sealed, 'row/2'))
    assert.ok(!sealed.includes('whsec_1'))
  })

  it('encrypts with the first key of the ring and decrypts with any', () => {
    const old = new SecretBox([key(1)]).seal('x', '')
    const rotated = new SecretBox([key(2), key(1)])

    assert.equal(rotated.open(old, '').toString(), 'x')
    assert.throws(() => new SecretBox([key(1)]).open(rotated.seal('x', ''), ''), /no key/)
  })

  it('rejects altered and truncated data', () => {
    const box = new SecretBox([key(1)])
    const sealed = box.seal('a secret', '')
    for (let i = 0; i < sealed.length; i++) {
      const changed = Buffer.from(sealed)
      changed[i] = (changed[i] ?? 0) ^ 1
      assert.throws(() => box.open(changed, ''), `byte ${i}`)
      assert.throws(() => box.open(sealed.subarray(0, i), ''), `length ${i}`)
    }
  })

  it('never seals the same way twice', () => {
    const box = new SecretBox([key(1)])

    assert.ok(!box.seal('x', '').equals(box.seal('x', '')))
  })

  it('names the setting when a key is missing or short', () => {
    assert.throws(() => new SecretBox([]), /HEARTH_ENCRYPTION_KEYS/)
    assert.throws(() => new SecretBox(['c2hvcnQ=']), /HEARTH_ENCRYPTION_KEYS/)
  })
})
