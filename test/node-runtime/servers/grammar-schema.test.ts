import assert from 'node:assert/strict'
import { grammarSchema } from '../../../node-runtime/servers/llama/grammar-schema.ts'

const strict = (schema: unknown) => grammarSchema(schema, { field: 'schema', isStrict: true })
const lenient = (schema: unknown) => grammarSchema(schema, { field: 'schema', isStrict: false })

describe('a schema for a grammar of llama.cpp', () => {
  it('keeps what grammars know, in their words', () => {
    const schema = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      title: 'Order',
      type: 'object',
      properties: {
        id: { type: ['string', 'null'], description: 'its name' },
        size: { enum: ['S', 'M'] },
        lines: { type: 'array', items: { $ref: '#/definitions/line' }, minItems: 1 },
        when: { type: 'string', format: 'date' },
      },
      required: ['id'],
      definitions: { line: { properties: { n: { type: 'integer', minimum: 1, maximum: 3 } } } },
    }

    assert.deepEqual(strict(schema), {
      type: 'object',
      properties: {
        id: { oneOf: [{ type: 'string' }, { type: 'null' }] },
        size: { enum: ['S', 'M'] },
        lines: { type: 'array', items: { $ref: '#/$defs/line' }, minItems: 1 },
        when: { type: 'string', format: 'date' },
      },
      additionalProperties: false,
      $defs: {
        line: { type: 'object', properties: { n: { enum: [1, 2, 3] } }, additionalProperties: false },
      },
    })
  })

  it('allows any members where none are named', () => {
    const any = { type: 'object', properties: {}, additionalProperties: true }

    assert.deepEqual(strict({ type: 'object' }), any)
    assert.deepEqual(strict({ allOf: [{ type: 'object' }], title: 'Any' }), any)
  })

  for (const [place, schema] of [
    ['schema.pattern', { type: 'string', pattern: '^a' }],
    ['schema.minimum', { type: 'number', minimum: 0 }],
    ['schema.properties.a.format', { properties: { a: { type: 'string', format: 'email' } } }],
    ['schema.allOf', { allOf: [{ type: 'string' }, { minLength: 2 }] }],
    ['schema.required', { properties: { a: { type: 'null' } }, required: ['b'] }],
  ] as const) {
    it(`says that it cannot hold to ${place}, or leaves it out where that will do`, () => {
      const isRight = { message: new RegExp(`^${place}.* cannot be held to`), field: place }

      assert.throws(() => strict(schema), isRight)
      assert.doesNotThrow(() => lenient(schema))
    })
  }

  for (const [place, schema] of [
    ['schema', 'text'],
    ['schema.type', { type: 'texte' }],
    ['schema.enum', { enum: [] }],
    ['schema.const', { const: {} }],
    ['schema.properties', { type: 'object', properties: [] }],
    ['schema.items', { type: 'array', items: 5 }],
    ['schema.anyOf.1', { anyOf: [{ type: 'null' }, false] }],
    ['schema.$ref', { $ref: '#/$defs/none' }],
  ] as const) {
    it(`refuses ${JSON.stringify(schema)} by the name of ${place}`, () => {
      assert.throws(() => lenient(schema), { name: 'UnusableError', field: place })
    })
  }
})
