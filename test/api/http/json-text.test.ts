import { strict as assert } from 'node:assert'
import { ofText, parsed, serialize, withText } from '../../../api/http/bodies/json-text.ts'

describe('the JSON text of a response', () => {
  const text = Buffer.from('{ "a": 1.50, "b": "é" }')
  const parsedText = () => withText(JSON.parse(text.toString()) as Record<string, unknown>, text)
  const textOf = (body: unknown) => String(serialize(body))

  it('keeps the original text of a known member at any position', () => {
    assert.equal(
      textOf({ id: 7, result: parsedText(), ms: 1 }),
      `{"id":7,"ms":1,"result":${text.toString()}}`,
    )
    assert.equal(textOf({ result: parsedText() }), `{"result":${text.toString()}}`)
    assert.equal(textOf({ gone: undefined, result: parsedText() }), `{"result":${text.toString()}}`)
  })

  it('includes values that have never been parsed', () => {
    assert.equal(textOf({ id: 7, result: ofText(text) }), `{"id":7,"result":${text.toString()}}`)
    assert.equal(textOf({ deep: { result: ofText(text) } }), '{"deep":{"result":{"a":1.5,"b":"é"}}}')
    assert.deepEqual(parsed({ id: 7, result: ofText(text) }), { id: 7, result: { a: 1.5, b: 'é' } })
    for (const body of [{ result: parsedText() }, { id: 7 }, [ofText(text)], null, 'text'])
      assert.equal(parsed(body), body)
  })

  it('is not parsed for tools when it is megabytes long', () => {
    const large = Buffer.from(`{"a":"${'x'.repeat(5 << 20)}"}`)
    for (const result of [ofText(large), withText({}, large)])
      assert.throws(() => parsed({ task_id: 'an-id', result }), {
        code: 'payload_too_large',
        message:
          'the result is 5.0 MB, too much for a tool; read it over HTTP at /api/builder/v1/tasks/an-id',
      })
  })

  it('equals the output of JSON.stringify otherwise', () => {
    const bodies = [
      { a: [1, { b: null }] },
      [parsedText()],
      { deep: { result: parsedText() } },
      null,
      'text',
      3,
    ]
    for (const body of bodies) assert.equal(textOf(body), JSON.stringify(body))
  })

  it('reflects changes: a modified copy is serialized from its values', () => {
    assert.equal(textOf({ result: { ...parsedText(), a: 2 } }), '{"result":{"a":2,"b":"é"}}')
  })
})
