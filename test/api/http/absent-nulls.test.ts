import assert from 'node:assert/strict'
import type { TSchema } from 'typebox'
import Type from 'typebox'
import { jsonCheck } from '../../../api/http/validate.ts'
import type { ApiError } from '../../../domain/errors.ts'
import { ArtifactRef } from '../../../schemas/artifact-ref.ts'
import { ExactlyOneOf } from '../../../schemas/common.ts'
import { CreateModel } from '../../../schemas/model.ts'
import { CreateTrainingRun } from '../../../schemas/training-run.ts'

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

  it('counts as an absent optional field at any depth, and the default applies', () => {
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

  it('is kept where the schema accepts it', () => {
    assert.deepEqual(check(Body, { name: 'x', note: null, size: 1 }), { name: 'x', note: null, size: 1 })
  })

  it('is an error for a required field, a list item or an unknown field', () => {
    for (const [given, fault] of [
      [{ name: null, size: null }, /^body\.name: /],
      [{ name: 'x', rows: [null] }, /^body\.rows\.0: /],
      [{ name: 'x', rows: [{ id: null }] }, /^body\.rows\.0\.id: /],
      [{ name: 'x', other: null }, /^body\.other: Unknown field/],
    ] as const)
      assert.throws(() => check(Body, given), { code: 'validation_failed', message: fault })
  })

  it('counts as absent in hundreds of rows, and is still an error for a required field', () => {
    const rows = Array.from({ length: 500 }, (_, id) => ({ id, note: null as null | string }))

    assert.deepEqual(check(Body, { name: 'x', rows }), {
      name: 'x',
      size: 5,
      rows: rows.map(({ id }) => ({ id })),
    })
    assert.throws(() => check(Body, { name: 'x', rows: [...rows, { id: null, note: null }] }), {
      code: 'validation_failed',
      message: /^body\.rows\.500\.id: /,
    })
  })

  it('counts as absent for a field that excludes another one, even in large bodies', () => {
    const id = '01a21c30-b750-7478-a0b0-e5bd1625c369'
    const Stage = Type.Object(
      { a: Type.Optional(Type.String()), b: Type.Optional(Type.Array(Type.String())) },
      ExactlyOneOf('a', 'b'),
    )
    const Plan = Type.Object({ stages: Type.Array(Stage) })

    assert.deepEqual(check(CreateModel, { name: 'm', job_id: id, version_id: null }), {
      name: 'm',
      job_id: id,
    })
    assert.deepEqual(check(CreateModel, { name: 'm', job_id: null, version_id: id }), {
      name: 'm',
      version_id: id,
    })
    for (const large of [false, true]) {
      const stages = [
        { a: 'x', b: null },
        { a: null, b: ['y'] },
      ]
      assert.deepEqual(jsonCheck('body', Plan)({ stages }, large), { stages: [{ a: 'x' }, { b: ['y'] }] })
      for (const given of [{ a: null, b: null }, { a: null }, { a: 'x', b: ['y'] }])
        assert.throws(() => jsonCheck('body', Plan)({ stages: [structuredClone(given)] }, large), {
          code: 'validation_failed',
          message: /^body\.stages\.0/,
        })
    }
  })

  it('counts as absent for a field of another variant of the object, at any depth', () => {
    const version_id = '01a21c30-b750-7478-a0b0-e5bd1625c369'
    const run = { job_name: 'r', dataset_id: version_id, model: 'm' }
    const Sources = Type.Object({
      sources: Type.Array(Type.Object({ artifact: ArtifactRef, weight: Type.Number() })),
    })
    const all = { uri: null, repo_id: null, revision: null, job_id: null, version_id: null }
    const ref = { type: 'model_version', version_id }

    assert.deepEqual(check(CreateTrainingRun, { ...run, base: { ...all, ...ref } }), { ...run, base: ref })
    for (const large of [false, true])
      assert.deepEqual(
        jsonCheck('body', Sources)({ sources: [{ artifact: { ...all, ...ref }, weight: 1 }] }, large),
        { sources: [{ artifact: ref, weight: 1 }] },
      )
    for (const [base, fault] of [
      [{ ...ref, revision: 'x' }, /^body\.base\.revision: Unknown field$/],
      [{ ...ref, job: null }, /^body\.base\.job: Unknown field/],
      [
        { ...ref, job_name: null },
        /^body\.base\.job_name: Unknown field; it belongs to the top-level object$/,
      ],
      [{ ...all, type: 'job' }, /^body\.base\.job_id: /],
    ] as const)
      assert.throws(() => check(CreateTrainingRun, { ...run, base }), {
        code: 'validation_failed',
        message: fault,
      })
  })

  it('is not listed among the validation errors of other fields', () => {
    const faults = (schema: TSchema, value: unknown) => {
      try {
        check(schema, value)
      } catch (err) {
        return ((err as ApiError).details.issues as { loc: string[] }[]).map(({ loc }) => loc.join('.'))
      }
      return []
    }

    assert.deepEqual(faults(Body, { name: 5, size: null, kind: null, rows: [{ id: 1, note: null }, {}] }), [
      'body.name',
      'body.rows.1.id',
    ])
    assert.deepEqual(faults(Body, { name: 'x', size: null, typo: 1, input: null }), ['body.typo'])
    assert.deepEqual(faults(Body, { size: null, name: null, kind: 'c' }), ['body.name', 'body.kind'])
  })

  it('costs a bounded number of validations', () => {
    const Wide = Type.Object(
      Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`f${n}`, Type.Optional(Type.String())])),
    )
    const given = Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`f${n}`, null]))

    assert.deepEqual(check(Wide, given), {})
    // Validation of a large body stops at its first error, so each of its nulls costs one more check.
    assert.throws(() => jsonCheck('body', Wide)(structuredClone(given), true), { code: 'validation_failed' })
  })
})
