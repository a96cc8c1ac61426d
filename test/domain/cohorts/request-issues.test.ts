import assert from 'node:assert/strict'
import { issuesOf } from '../../../domain/cohorts/request-issues.ts'

describe("a stage's default output", () => {
  const issuesWith = (stage: object) =>
    issuesOf({ stages: [{ stage_id: 'a', endpoint_id: 'x', ...stage }], edges: [] })

  for (const required of [undefined, true, false])
    it(`may be null where "required" is ${required}`, () => {
      assert.deepEqual(issuesWith({ required, default_output: null }), [])
    })

  for (const default_output of [0, false, '', {}])
    it(`may not be ${JSON.stringify(default_output)} where the stage is required`, () => {
      assert.deepEqual(
        issuesWith({ default_output }).map(({ loc }) => loc),
        [['body', 'stages', 0, 'default_output']],
      )
    })
})
