import assert from 'node:assert/strict'
import { jsonCheck } from '../../api/http/validate.ts'
import { ApiError } from '../../domain/errors.ts'
import { ArtifactRef } from '../../schemas/artifact-ref.ts'

describe('what is wrong with a body', () => {
  it('names the member that chooses between shapes, and its value', () => {
    const check = jsonCheck('body', ArtifactRef)

    assert.throws(
      () => check({ type: 'foo' }),
      (err: unknown) =>
        err instanceof ApiError &&
        err.message === 'body.type: there is no type "foo" here' &&
        err.code === 'validation_failed',
    )
    assert.throws(() => check({}), /body\.type: Field required/)
  })
})
