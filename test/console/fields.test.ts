import assert from 'node:assert/strict'
import { fieldsOf } from '../../console/src/playground/fields.ts'

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

    assert.deepEqual(fieldsOf(schema), {
      'ui:order': ['instances', '*'],
      text: { 'ui:widget': 'textarea', 'ui:options': { rows: 4 } },
      instances: { items: { 'ui:order': ['rooms', 'city', '*'], age: {}, city: {}, rooms: {} } },
    })
  })

  it('are those of the schema, whatever it requires beside them', () => {
    const shown = fieldsOf({ properties: { a: { type: 'string' } }, required: ['a', 'gone'] })

    assert.deepEqual(shown['ui:order'], ['a', '*'])
  })
})
