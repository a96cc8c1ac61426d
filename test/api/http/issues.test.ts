import assert from 'node:assert/strict'
import Type, { type TSchema } from 'typebox'
import { jsonCheck } from '../../../api/http/validate.ts'
import { ApiError } from '../../../domain/errors.ts'
import { newId } from '../../../domain/ids.ts'
import { ArtifactRef } from '../../../schemas/artifact-ref.ts'
import { EitherOf, ExactlyOneOf, RequiredWith, Uuid } from '../../../schemas/common.ts'
import { EndpointName } from '../../../schemas/endpoint.ts'

describe('validation errors', () => {
  it('name the discriminator of a union, its value and the allowed values', () => {
    const check = jsonCheck('body', ArtifactRef)
    const allowed = 'must be one of "hf", "model_version", "job", "storage"'

    assert.throws(
      () => check({ type: 'foo' }),
      (err: unknown) =>
        err instanceof ApiError &&
        err.message === `body.type: ${allowed}, not "foo"` &&
        err.code === 'validation_failed',
    )
    assert.throws(() => check({ type: 7 }), { message: `body.type: ${allowed}, not 7` })
    assert.throws(
      () => check({}),
      (err: unknown) => {
        assert.ok(err instanceof ApiError)
        assert.deepEqual(err.details.issues, [
          { loc: ['body', 'type'], msg: 'Field required', type: 'missing' },
        ])
        return true
      },
    )
  })

  it('say where an unknown field belongs, unless too many objects have a field of that name', () => {
    const of = (fields: Record<string, TSchema>) => Type.Object(fields, { additionalProperties: false })
    const text = Type.Optional(Type.String())
    const edge = of({ space: Type.Optional(of({ source: text })), least: text, ways: text, id: text })
    const places = ['a', 'b', 'c'].map((name) => [name, Type.Optional(of({ id: text }))])
    const schema = of({
      edges: Type.Optional(Type.Array(edge)),
      limits: Type.Optional(of({ least: text, until: text })),
      ...Object.fromEntries(places),
    })
    const messageFor = (value: object): unknown => {
      try {
        return jsonCheck('body', schema)(value)
      } catch (err) {
        return (err as ApiError).message
      }
    }
    assert.equal(
      messageFor({ limits: { ways: 'x' } }),
      'body.limits.ways: Unknown field; it belongs to edges[]',
    )
    assert.equal(
      messageFor({ edges: [{ space: { least: 'x' } }] }),
      'body.edges.0.space.least: Unknown field; it belongs to edges[] or limits',
    )
    assert.equal(
      messageFor({ limits: { edges: [] } }),
      'body.limits.edges: Unknown field; it belongs to the top-level object',
    )
    assert.equal(messageFor({ limits: { id: 'x' } }), 'body.limits.id: Unknown field')
    assert.equal(messageFor({ limits: { other: 'x' } }), 'body.limits.other: Unknown field')
  })

  it('report a missing one-of group along with all other errors', () => {
    const fields = { a: Type.Optional(Type.String()), b: Type.Optional(Type.String()), c: Type.String() }
    const faults = (options: object, value: object): [string, string][] => {
      const check = jsonCheck('body', Type.Object(fields, { additionalProperties: false, ...options }))
      try {
        check(value)
      } catch (err) {
        assert.ok(err instanceof ApiError)
        const issues = err.details.issues as { loc: string[]; msg: string }[]
        return issues
          .map(({ loc, msg }): [string, string] => [loc.join('.'), msg])
          .toSorted(([a], [b]) => a.localeCompare(b))
      }
      return []
    }
    const others: [string, string][] = [
      ['body.c', 'Field required'],
      ['body.d', 'Unknown field'],
    ]

    assert.deepEqual(faults(EitherOf('a', 'b'), { d: 1 }), [['body.a', 'Field required: a or b'], ...others])
    assert.deepEqual(faults(EitherOf('a', 'b'), { a: '', b: '', d: 1 }), others)
    assert.deepEqual(faults(ExactlyOneOf('a', 'b'), { d: 1 }), [
      ['body.a', 'Field required: a or b'],
      ...others,
    ])
    assert.deepEqual(faults(ExactlyOneOf('a', 'b'), { a: '', b: '', d: 1 }), [
      ['body.a', 'Set exactly one of a, b'],
      ...others,
    ])
    assert.deepEqual(faults(RequiredWith('c', 'x', ['a', 'b']), { c: 'x', d: 1 }), [
      ['body.a', 'Field required'],
      ['body.b', 'Field required'],
      ['body.d', 'Unknown field'],
    ])
    assert.deepEqual(faults(RequiredWith('c', 'x', ['a', 'b']), { c: 'y' }), [])
  })

  it('suggest the closest known field for a misspelled one', () => {
    const inner = Type.Object({ timeout_s: Type.Integer() }, { additionalProperties: false })
    const fields = { endpoint_id: Type.String(), a: Type.String(), stages: Type.Array(inner) }
    const check = jsonCheck(
      'body',
      Type.Object(Type.Partial(Type.Object(fields)).properties, { additionalProperties: false }),
    )
    const messageFor = (value: object) => {
      try {
        check(value)
        return undefined
      } catch (err) {
        return (err as Error).message
      }
    }

    assert.equal(
      messageFor({ endpointId: 'x' }),
      'body.endpointId: Unknown field; did you mean "endpoint_id"?',
    )
    assert.equal(
      messageFor({ edpnoint_id: 'x' }),
      'body.edpnoint_id: Unknown field; did you mean "endpoint_id"?',
    )
    assert.match(
      messageFor({ stages: [{ timeout_s: 1, timeout: 2 }] }) ?? '',
      /^body\.stages\.0\.timeout: Unknown field; did you mean "timeout_s"\?$/,
    )
    const needed = jsonCheck(
      'body',
      Type.Object({ endpoint_id: Type.String() }, { additionalProperties: false }),
    )
    assert.throws(() => needed({ endpoint: 'x' }), {
      message: 'body.endpoint: Unknown field; did you mean "endpoint_id"?',
    })
    for (const far of ['b', 'colour', 'x'.repeat(10_000)])
      assert.match(messageFor({ [far]: 1 }) ?? '', /: Unknown field$/)
  })

  it('describe the expected text in words, never as a pattern', () => {
    const body = Type.Object({ name: EndpointName, id: Uuid, other: Type.String({ pattern: '^secret$' }) })
    const check = jsonCheck('body', body)
    const messageFor = (value: object): string => {
      try {
        check({ name: 'a', id: newId(), other: 'secret', ...value })
      } catch (err) {
        return (err as Error).message
      }
      return 'nothing'
    }

    assert.match(messageFor({ name: 'A B' }), /^body\.name: must consist of lower-case letters, digits/)
    assert.equal(messageFor({ id: '7' }), 'body.id: must be a UUID')
    assert.match(messageFor({ name: '' }), /^body\.name: must not be empty/)
    assert.equal(messageFor({ name: 'a'.repeat(101) }), 'body.name: must have at most 100 characters')
    assert.equal(messageFor({ other: 'x' }), 'body.other: does not match the required format')
  })

  it('describe expectations in words, not in JSON Schema terms', () => {
    const messageFor = (schema: object, value: unknown): string => {
      try {
        jsonCheck('body', Type.Unsafe({ type: 'object', properties: { a: schema } }))({ a: value })
      } catch (err) {
        return (err as Error).message.replace('body.a: ', '')
      }
      return 'nothing'
    }
    const expected: [object, unknown, string][] = [
      [{ type: 'string' }, 1, 'must be a string'],
      [{ type: 'integer' }, 1.5, 'must be a whole number'],
      [{ type: ['array', 'null'] }, 1, 'must be a list or null'],
      [{ minimum: 3 }, 1, 'must be at least 3'],
      [{ exclusiveMaximum: 3 }, 3, 'must be less than 3'],
      [{ const: 'x' }, 1, 'must be "x"'],
      [{ multipleOf: 8 }, 9, 'must be a multiple of 8'],
      [{ uniqueItems: true }, [1, 1], 'must not contain the same item twice (items 0 and 1)'],
      [{ properties: { b: {}, c: {} }, minProperties: 1 }, {}, 'must have at least one of b, c'],
      [{ minProperties: 1 }, {}, 'must not be empty'],
      [{ oneOf: [{ minimum: 3 }, { minimum: 2 }] }, 4, 'matches more than one form'],
      [{ not: {} }, 4, 'matches a form that the schema forbids'],
    ]

    for (const [schema, value, words] of expected) {
      assert.ok(messageFor(schema, value).startsWith(words), messageFor(schema, value))
    }
  })
})
