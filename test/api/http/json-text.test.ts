import { strict as assert } from 'node:assert'
import { serialize, withText } from '../../../api/http/json-text.ts'

describe('the JSON text of a response', () => {
  const text = Buffer.from('{ "a": 1.50, "b": "é" }')
  const known = () => withText(JSON.parse(text.toString()) as Record<string, unknown>, text)
  const textOf = (body: unknown) => String(serialize(body))

  it('has the text of a known member as it is, wherever the member stands', () => {
    assert.equal(textOf({ id: 7, result: known(), ms: 1 }), `{"id":7,"ms":1,"result":${text.toString()}}`)
    assert.equal(textOf({ result: known() }), `{"result":${text.toString()}}`)
    assert.equal(textOf({ gone: undefined, result: known() }), `{"result":${text.toString()}}`)
  })

  it('is that of JSON.stringify otherwise', () => {
    const bodies = [{ a: [1, { b: null }] }, [known()], { deep: { result: known() } }, null, 'text', 3]
    for (const body of bodies) assert.equal(textOf(body), JSON.stringify(body))
  })

  it('does not outlive a change: a copy is written as it stands', () => {
    assert.equal(textOf({ result: { ...known(), a: 2 } }), '{"result":{"a":2,"b":"é"}}')
  })
})
