import assert from 'node:assert/strict'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { CHAT_LISTING } from '../../../domain/chat/listing.ts'
import { examplesOf } from '../../../domain/tools/examples.ts'

const ROWS = {
  source: 'trained',
  task_type: 'regression',
  input_schema: { type: 'object' },
  example_input: { instances: [{ x: 1 }, { x: 2 }] },
  example_output: { predictions: [10, 20] },
  examples: [],
} as const

describe('the examples of a tool (2.10)', () => {
  it('of a language model have a second chat, which fits its schemas', () => {
    const ajv = new Ajv2020()
    const chat = { source: 'catalog', task_type: 'chat', examples: [], ...CHAT_LISTING } as const
    const examples = examplesOf(chat)

    assert.equal(examples.length, 2)
    for (const { input, output } of examples) {
      assert.ok(ajv.validate(CHAT_LISTING.input_schema, input))
      assert.ok(ajv.validate(CHAT_LISTING.output_schema, output))
    }
    assert.equal(examplesOf({ ...chat, task_type: 'embeddings' }).length, 1)
    const required = { ...CHAT_LISTING.input_schema, required: ['messages', 'persona'] }
    assert.equal(examplesOf({ ...chat, input_schema: required }).length, 1)
  })

  it('of a trained model that predicts rows have the first row alone', () => {
    assert.deepEqual(
      examplesOf(ROWS).map(({ input, output }) => [input, output]),
      [
        [ROWS.example_input, ROWS.example_output],
        [{ instances: [{ x: 1 }] }, { predictions: [10] }],
      ],
    )
  })

  it('are not derived where rows and predictions do not belong together', () => {
    for (const change of [
      { source: 'catalog' as const },
      { example_input: { instances: [{ x: 1 }] }, example_output: { predictions: [10] } },
      { example_output: { predictions: [10] } },
      { example_output: { predictions: [10, 20], total: 30 } },
      { example_input: { instances: [{ x: 1 }, { x: 2 }], horizon: 3 } },
    ])
      assert.equal(examplesOf({ ...ROWS, ...change }).length, 1, JSON.stringify(change))
  })

  it('end with those of the owner', () => {
    const given = { name: 'mine', description: '', input: { instances: [] }, output: { predictions: [] } }
    assert.deepEqual(examplesOf({ ...ROWS, examples: [given] }).at(-1), given)
  })
})
