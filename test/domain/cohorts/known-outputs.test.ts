import assert from 'node:assert/strict'
import { CHAT_LISTING } from '../../../domain/chat/listing.ts'
import { graphOf } from '../../../domain/cohorts/graph.ts'
import { type StageOutput, unknownOutputs } from '../../../domain/cohorts/known-outputs.ts'
import { importedListing } from '../../../domain/task-types/index.ts'

const TABLE = {
  task_type: 'regression',
  runtime_profile: 'tabular',
  output_schema: { type: 'object', properties: { predictions: {} }, required: ['predictions'] },
}
const chat = (runtime_profile: string) => ({
  task_type: 'chat',
  runtime_profile,
  output_schema: CHAT_LISTING.output_schema,
})

const taken = (result: StageOutput, path: string, { first = {}, second = {}, edge = {} } = {}) =>
  unknownOutputs(
    graphOf({
      stages: [
        { stage_id: 'a', endpoint_id: 'x', ...first },
        { stage_id: 'b', endpoint_id: 'y', ...second },
      ],
      edges: [{ from: { stage_id: 'a', path }, to: { stage_id: 'b', path: '/v' }, ...edge }],
    }),
    new Map([['a', result]]),
  )

describe('unknown result members', () => {
  it('are rejected in edges, with a suggestion and the known members', () => {
    const [reason, ...more] = taken(TABLE, '/predictionz/0')

    assert.deepEqual([reason?.code, reason?.edge_id, more], ['unknown_output', 'a-b-1', []])
    assert.match(
      reason?.message ?? '',
      /^edge "a-b-1" reads "\/predictionz\/0" of stage "a", whose result has no "predictionz"; did you mean "predictions"\? It has predictions$/,
    )
    for (const path of ['/predictions/7', '/model', '']) assert.deepEqual(taken(TABLE, path), [], path)
  })

  it('are rejected in outputs', () => {
    const [reason] = unknownOutputs(
      graphOf({
        stages: [{ stage_id: 'a', endpoint_id: 'x' }],
        edges: [],
        outputs: [{ name: 'verdict', stage_id: 'a', path: '/nope' }],
      }),
      new Map([['a', chat('llm-transformers')]]),
    )
    assert.match(reason?.message ?? '', /^output "verdict" reads "\/nope" .* it has choices, usage$/)
  })

  it("are checked against the task type's members even if the endpoint's schema lists fewer", () => {
    const output_schema = { type: 'object', properties: { text: {} } }
    const hearing = { task_type: 'stt', runtime_profile: 'specialist-whisper', output_schema }
    assert.deepEqual(taken(hearing, '/segments/0'), [])
    assert.equal(taken(hearing, '/words').length, 1)
  })

  it('are rejected only when the members of the result are known', () => {
    assert.deepEqual(taken(chat('llm-vllm'), '/nope'), [])
    assert.deepEqual(taken({ ...TABLE, output_schema: { type: 'object' } }, '/nope'), [])
    const tool = { ...TABLE, task_type: 'tool', runtime_profile: 'tool' }
    assert.deepEqual(taken(tool, '/nope'), [])
    const closed = { ...tool.output_schema, additionalProperties: false }
    assert.equal(taken({ ...tool, output_schema: closed }, '/nope').length, 1)
    for (const made of ['/output_artifacts/0/url', '/metadata/seed'])
      assert.deepEqual(
        taken(
          {
            task_type: 'text-to-image',
            runtime_profile: 'generative-torch',
            output_schema: importedListing('text-to-image').output_schema,
          },
          made,
        ),
        [],
      )
  })

  it('are left to the run when the cohort could continue without them', () => {
    for (const more of [
      { first: { required: false } },
      { first: { fallbacks: ['z'] } },
      { first: { operation: 'prefill' } },
      { second: { quorum: 1 } },
      { edge: { space: { source: 'output', target: 'input' } } },
    ] as object[])
      assert.deepEqual(taken(TABLE, '/nope', more), [], JSON.stringify(more))
  })
})
