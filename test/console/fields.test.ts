import assert from 'node:assert/strict'
import { fieldsOf, inOrder } from '../../console/src/playground/fields.ts'

const NUMBER = { 'ui:options': { inputType: 'number' } }

describe('playground fields', () => {
  it('follow the column order in `x-order`, including optional columns', () => {
    const instance = {
      properties: { age: { type: ['number', 'null'] }, city: {}, rooms: {} },
      required: ['rooms', 'city'],
      'x-order': ['rooms', 'age', 'city', 'gone'],
    }
    const schema = { properties: { instances: { items: instance } } }
    const example = { instances: [{ age: 1, city: 'Oslo', extra: [2], rooms: null }], note: 'x' }

    assert.deepEqual(fieldsOf(schema)['instances'], {
      'ui:title': 'Rows',
      items: { 'ui:title': '', 'ui:order': ['rooms', 'age', 'city', '*'], age: NUMBER, city: {}, rooms: {} },
    })
    assert.equal(
      JSON.stringify(inOrder(example, schema)),
      '{"instances":[{"rooms":null,"age":1,"city":"Oslo","extra":[2]}],"note":"x"}',
    )
  })

  it('follow the column order for models trained before version 0.13, with optional columns last', () => {
    // The database (jsonb) orders the members of an object by the length of their names.
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
      instances: {
        'ui:title': 'Rows',
        items: { 'ui:title': '', 'ui:order': ['rooms', 'city', '*'], age: {}, city: {}, rooms: {} },
      },
    })
  })

  it('are the properties of the schema, whatever else it requires', () => {
    const shown = fieldsOf({ properties: { a: { type: 'string' } }, required: ['a', 'gone'] })

    assert.deepEqual(shown['ui:order'], ['a', '*'])
  })
})
