import assert from 'node:assert/strict'
import { builtInSpaces, type ModelFacts } from '../../../domain/cohorts/built-in-spaces.ts'

const DIGEST = 'ab'.repeat(32)
const facts = (overrides: Partial<ModelFacts>): ModelFacts => ({
  taskType: 'embeddings',
  framework: 'onnxruntime',
  files: [{ path: 'config.json', sha256: DIGEST }],
  configs: { 'config.json': { hidden_size: 64 } },
  ...overrides,
})
const MODULES = [
  { type: 'sentence_transformers.models.Transformer', path: '' },
  { type: 'sentence_transformers.models.Pooling', path: '1_Pooling' },
]
const withPooling = (pooling: object, ...more: object[]) =>
  facts({
    configs: {
      'config.json': { hidden_size: 64 },
      'modules.json': [...MODULES, ...more],
      '1_Pooling/config.json': pooling,
    },
  })
const output = (of: ModelFacts) => builtInSpaces(of).find(({ name }) => name === 'output')

describe('the spaces that follow from files', () => {
  it('are texts and vectors for an encoder, as its layout makes them', () => {
    const cls = output(withPooling({ pooling_mode_cls_token: true }))
    const mean = output(withPooling({ pooling_mode: 'mean' }, { type: 'x.Normalize', path: '2' }))

    assert.deepEqual(
      builtInSpaces(facts({})).map(({ name, role, kind }) => [name, role, kind]),
      [
        ['text', 'accepts', 'text'],
        ['output', 'produces', 'embedding'],
      ],
    )
    assert.deepEqual([cls?.pooling, cls?.normalized, cls?.dimensions, cls?.dtype], ['cls', false, 64, 'f32'])
    assert.deepEqual([mean?.pooling, mean?.normalized], ['mean', true])
    assert.deepEqual([output(facts({}))?.pooling, output(facts({}))?.normalized], ['mean', true])
  })

  it('say nothing of vectors that they do not tell for sure', () => {
    const unsure = [
      withPooling({ pooling_mode_cls_token: true, pooling_mode_mean_tokens: true }),
      withPooling({ pooling_mode_max_tokens: true }),
      withPooling({ pooling_mode: 'max' }),
      facts({ configs: {} }),
    ]

    assert.deepEqual(unsure.map(output), [undefined, undefined, undefined, undefined])
  })

  it('are texts and tokens for a language model, tokens by its tokenizer', () => {
    const files = [{ path: 'tokenizer.json', sha256: DIGEST }]
    const [text, tokens] = builtInSpaces(facts({ taskType: 'chat', files }))

    assert.deepEqual([text?.kind, text?.role], ['text', 'both'])
    assert.equal(tokens?.tokenizer_digest, DIGEST)
    assert.equal(builtInSpaces(facts({ taskType: 'chat', files: [] })).length, 1)
  })

  it('are JSON for a model of tables, and nothing for what is not known', () => {
    const table = builtInSpaces(facts({ taskType: 'classification', framework: 'lightgbm' }))

    assert.deepEqual(
      table.map(({ name, kind }) => [name, kind]),
      [
        ['input', 'json'],
        ['output', 'json'],
      ],
    )
    assert.deepEqual(builtInSpaces(facts({ taskType: 'text-to-image' })), [])
  })
})
