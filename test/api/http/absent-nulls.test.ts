import assert from 'node:assert/strict'
import type { TSchema } from 'typebox'
import Type from 'typebox'
import { jsonCheck } from '../../../api/http/validate.ts'

const check = (schema: TSchema, value: unknown) => jsonCheck('body', schema)(structuredClone(value))

describe('null in a body', () => {
  const Row = Type.Object({ id: Type.Integer(), note: Type.Optional(Type.String()) })
  const Body = Type.Object(
    {
      name: Type.String(),
      size: Type.Optional(Type.Integer({ default: 5 })),
      kind: Type.Optional(Type.Unsafe<string>({ enum: ['a', 'b'] })),
      note: Type.Optional(Type.Union([Type.String(), Type.Null()])),
      input: Type.Optional(Type.Union([Type.String(), Type.Array(Type.String())])),
      rows: Type.Optional(Type.Array(Row)),
      'a/b~c': Type.Optional(Type.Boolean()),
    },
    { additionalProperties: false },
  )

  it('is the absence of an optional field, at any depth, and the default applies', () => {
    const given = {
      name: 'x',
      size: null,
      kind: null,
      input: null,
      rows: [{ id: 1, note: null }],
      'a/b~c': null,
    }

    assert.deepEqual(check(Body, given), { name: 'x', size: 5, rows: [{ id: 1 }] })
  })

  it('stays where the schema accepts it', () => {
    assert.deepEqual(check(Body, { name: 'x', note: null, size: 1 }), { name: 'x', note: null, size: 1 })
  })

  it('is a fault of a required field, of an item, and of a field that does not exist', () => {
    for (const [given, fault] of [
      [{ name: null, size: null }, /^body\.name: /],
      [{ name: 'x', rows: [null] }, /^body\.rows\.0: /],
      [{ name: 'x', rows: [{ id: null }] }, /^body\.rows\.0\.id: /],
      [{ name: 'x', other: null }, /^body\.other: Unknown field/],
    ] as const)
      assert.throws(() => check(Body, given), { code: 'validation_failed', message: fault })
  })

  it('costs a bounded number of validations', () => {
    const Wide = Type.Object(
      Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`f${n}`, Type.Optional(Type.String())])),
    )
    const given = Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`f${n}`, null]))

    assert.throws(() => check(Wide, given), { code: 'validation_failed' })
  })
})
