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

describe("a tool's examples (2.10)", () => {
  it('include a second chat for a language model, which matches its schemas', () => {
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

  it('include a single-row example for a trained model that predicts rows', () => {
    assert.deepEqual(
      examplesOf(ROWS).map(({ input, output }) => [input, output]),
      [
        [ROWS.example_input, ROWS.example_output],
        [{ instances: [{ x: 1 }] }, { predictions: [10] }],
      ],
    )
  })

  it('are not derived when rows and predictions do not correspond', () => {
    for (const change of [
      { source: 'catalog' as const },
      { example_input: { instances: [{ x: 1 }] }, example_output: { predictions: [10] } },
      { example_output: { predictions: [10] } },
      { example_output: { predictions: [10, 20], total: 30 } },
      { example_input: { instances: [{ x: 1 }, { x: 2 }], horizon: 3 } },
    ])
      assert.equal(examplesOf({ ...ROWS, ...change }).length, 1, JSON.stringify(change))
  })

  it("end with the owner's own examples", () => {
    const given = { name: 'mine', description: '', input: { instances: [] }, output: { predictions: [] } }
    assert.deepEqual(examplesOf({ ...ROWS, examples: [given] }).at(-1), given)
  })
})
