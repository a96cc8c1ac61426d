import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, it } from 'mocha'
import { ConfigError } from '../../platform/config.ts'
import { NodeCredentials } from '../../platform/node-credentials.ts'

const newKey = () => randomBytes(32).toString('base64')

describe('node credentials', () => {
  it('can be read with any key in the key ring, even during key rotation', () => {
    const [old, next] = [newKey(), newKey()]
    const credential = { nodeId: 'n1', expiresAt: 12_345 }
    const before = new NodeCredentials([old])
    const between = new NodeCredentials([old, next])
    const after = new NodeCredentials([next, old])

    for (const maker of [before, between, after]) {
      const token = maker.issue(credential)
      for (const reader of [between, after]) assert.deepEqual(reader.read(token), credential)
    }
    assert.equal(new NodeCredentials([next]).read(before.issue(credential)), undefined)
  })

  it('are invalid when any part was changed', () => {
    const credentials = new NodeCredentials([newKey()])
    const token = credentials.issue({ nodeId: 'n1', expiresAt: 1 })
    const bytes = Buffer.from(token.slice('hgt_'.length), 'base64url')
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ 1
      assert.equal(credentials.read(`hgt_${changed.toString('base64url')}`), undefined, `byte ${at}`)
    }
    for (const text of ['', 'hgt_', 'hgt_AAAA', token.slice(4), `x${token}`, `${token}=`]) {
      assert.equal(credentials.read(text), undefined, text)
    }
  })

  it('bind a task token to one node, and are not task tokens themselves', () => {
    const credentials = new NodeCredentials([newKey()])
    const taskToken = randomBytes(80)
    const bound = credentials.bind('n1', taskToken)

    assert.deepEqual(credentials.unbind('n1', bound), taskToken)
    assert.equal(credentials.unbind('n2', bound), undefined)
    assert.equal(credentials.unbind('n1', taskToken), undefined)
    assert.equal(credentials.read(`hgt_${bound.toString('base64url')}`), undefined)
    const token = credentials.issue({ nodeId: 'n1', expiresAt: 1 })
    assert.equal(credentials.unbind('n1', Buffer.from(token.slice(4), 'base64url')), undefined)
  })

  it('require a key', () => {
    assert.throws(() => new NodeCredentials([]), ConfigError)
  })
})
