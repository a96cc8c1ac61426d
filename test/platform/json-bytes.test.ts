import assert from 'node:assert/strict'
import { memberFinder, replaceAt } from '../../platform/json-bytes.ts'

describe('memberFinder', () => {
  const find = memberFinder('model')
  const replaced = (text: string) => {
    const json = Buffer.from(text)
    const range = find(json)
    return range && replaceAt(json, range, Buffer.from('"served"')).toString()
  }

  const kept: [what: string, json: string, expected: string][] = [
    ['that is the only member', '{"model":"a"}', '{"model":"served"}'],
    [
      'and preserves spaces and numbers as written',
      ' {\t"x" : 1.50,\n "model" : "a b" , "y":[] } ',
      ' {\t"x" : 1.50,\n "model" : "served" , "y":[] } ',
    ],
    ['that contains quotes', '{"model":"a\\"b\\\\","x":"c"}', '{"model":"served","x":"c"}'],
    ['after a nested one', '{"x":{"model":"in"},"model":"a"}', '{"x":{"model":"in"},"model":"served"}'],
    ['before a nested one', '{"model":"a","x":[{"model":1}]}', '{"model":"served","x":[{"model":1}]}'],
    [
      "after a value that equals the member's name",
      '{"x":"model","model":"a"}',
      '{"x":"model","model":"served"}',
    ],
    [
      'after text that quotes the member',
      '{"x":"\\"model\\":\\"b\\"","model":"a"}',
      '{"x":"\\"model\\":\\"b\\"","model":"served"}',
    ],
    ['whose name has escapes', '{"mod\\u0065l":"a","x":1}', '{"mod\\u0065l":"served","x":1}'],
    [
      'whose name has escapes, after a nested one',
      '{"x":{"model":"in"},"mod\\u0065l":"a"}',
      '{"x":{"model":"in"},"mod\\u0065l":"served"}',
    ],
    ['next to other text with escapes', '{"x":"\\u00e9","model":"a"}', '{"x":"\\u00e9","model":"served"}'],
    ['next to multi-byte text', '{"x":"é漢😀","model":"a"}', '{"x":"é漢😀","model":"served"}'],
  ]
  for (const [what, json, expected] of kept) {
    it(`replaces a value ${what}`, () => {
      assert.equal(replaced(json), expected)
      assert.deepEqual(JSON.parse(expected), { ...(JSON.parse(json) as object), model: 'served' })
    })
  }

  it('returns undefined for a duplicate member, however it is written', () => {
    assert.equal(replaced('{"model":"a","model":"b"}'), undefined)
    assert.equal(replaced('{"model":"a","mod\\u0065l":"b"}'), undefined)
    assert.equal(replaced('{"\\u006dodel":"a","mod\\u0065l":"b"}'), undefined)
  })
})
