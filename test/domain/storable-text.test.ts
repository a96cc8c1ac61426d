import assert from 'node:assert/strict'
import { storable, storableJson } from '../../domain/storable-text.ts'

describe('storableJson', () => {
  it('replaces what PostgreSQL refuses in values and in names, and nothing else', () => {
    const REFUSED = ['a\0', '\ud83d', '\udc00x', '\\\0', '\\\\\ud83d']
    const ALLOWED = ['\\u0000', '\\\\u0000', '\\ud83d', '\u{1f600}', '"\\', '\n\u0001\ufffe', '\u2028']

    for (const text of [...REFUSED, ...ALLOWED]) {
      const stored: unknown = JSON.parse(storableJson({ [text]: [text, { [text]: text }] }))
      const expected = storable(text)
      assert.deepEqual(stored, { [expected]: [expected, { [expected]: expected }] })
      assert.equal(expected === text, ALLOWED.includes(text), JSON.stringify(text))
    }
  })
})
