import assert from 'node:assert/strict'
import { uiOf } from '../../console/src/playground/ui-of.ts'

describe('the fields of the playground', () => {
  it('follow the columns of the table, and what may be left out comes last', () => {
    // The database keeps the members of an object by the length of their names.
    const instance = {
      type: 'object',
      properties: { age: { type: 'number' }, city: { type: 'string' }, rooms: { type: 'number' } },
      required: ['rooms', 'city'],
    }
    const schema = {
      type: 'object',
      properties: { text: { type: 'string' }, instances: { type: 'array', items: instance } },
      required: ['instances'],
    }

    const shown = uiOf(schema)

    assert.deepEqual(shown['ui:order'], ['instances', '*'])
    assert.deepEqual(shown['instances'].items['ui:order'], ['rooms', 'city', '*'])
    assert.equal(shown['text']['ui:widget'], 'textarea')
  })

  it('are those of the schema, whatever it requires beside them', () => {
    const shown = uiOf({ properties: { a: { type: 'string' } }, required: ['a', 'gone'] })

    assert.deepEqual(shown['ui:order'], ['a', '*'])
  })
})
