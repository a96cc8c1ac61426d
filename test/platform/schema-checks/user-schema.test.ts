import assert from 'node:assert/strict'
import { compileWeighed } from '../../../platform/schema-checks/check.ts'
import { UserSchemaError } from '../../../platform/schema-checks/user-schema.ts'

const compileUserSchema = (schema: Record<string, unknown>) => compileWeighed(schema).validate

const text = (schema: object) => compileUserSchema({ type: 'object', properties: { a: schema } })

describe('caller schemas', () => {
  it('are evaluated according to JSON Schema', () => {
    const validate = compileUserSchema({
      $schema: 'http://json-schema.org/draft-07/schema#',
      $id: 'urn:x',
      type: 'object',
      required: ['rows'],
      properties: { rows: { type: 'array', minItems: 1, items: { $ref: '#/$defs/row' } } },
      $defs: { row: { type: 'object', properties: { day: { type: 'string', format: 'date' } } } },
    })

    assert.ok(validate({ rows: [{ day: '2026-01-31' }] }))
    assert.ok(!validate({ rows: [{ day: 'tomorrow' }] }))
    assert.ok(!validate({ rows: [] }))
    assert.ok(!validate({}))
  })

  it('run their patterns in linear time', () => {
    const validate = text({ type: 'string', pattern: '^(a+)+$' })
    const startedAt = performance.now()

    assert.ok(validate({ a: 'a'.repeat(50) }))
    assert.ok(!validate({ a: `${'a'.repeat(50_000)}!` }))
    assert.ok(performance.now() - startedAt < 10_000)
  })

  it('may use common patterns', () => {
    const validate = text({ type: 'string', pattern: '^[\\p{L}\\d_-]{1,64}(?:\\.(csv|json))?$' })

    assert.ok(validate({ a: 'tä-1.csv' }))
    assert.ok(!validate({ a: 'a b' }))
  })

  it('are rejected when they are invalid, too large, too deep, or need a non-linear pattern', () => {
    let deep: Record<string, unknown> = {}
    for (let i = 0; i < 100; i++) deep = { properties: { a: deep } }
    const bad = [
      { type: 'nonsense' },
      { $ref: 'https://example.com/schema' },
      { properties: { a: { pattern: '(a)\\1' } } },
      { properties: { a: { pattern: '(' } } },
      { description: 'x'.repeat(200_000) },
      deep,
    ]
    for (const schema of bad) assert.throws(() => compileUserSchema(schema), UserSchemaError)
  })

  it("can't make validation asynchronous", () => {
    const validate = compileUserSchema({ $async: true, type: 'object', required: ['a'] })

    assert.equal(validate({}), false)
  })

  it('detect duplicate items, however many there are', () => {
    const validate = text({ type: 'array', uniqueItems: true })
    const many = Array.from({ length: 100_000 }, (_, n) => ({ n, x: n }))
    const startedAt = performance.now()

    assert.ok(validate({ a: many }))
    assert.ok(!validate({ a: [...many, { x: 5, n: 5 }] }))
    assert.ok(text({ type: 'array', uniqueItems: false })({ a: [1, 1] }))
    assert.ok(performance.now() - startedAt < 20_000)
  })
})
