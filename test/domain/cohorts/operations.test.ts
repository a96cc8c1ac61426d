import assert from 'node:assert/strict'
import { graphOf } from '../../../domain/cohorts/graph.ts'
import { operationsOf, severalSpaces, unmadeKinds } from '../../../domain/cohorts/stage-operations.ts'
import type { StageOperation } from '../../../schemas/cohorts/plan.ts'
import type { SpaceKind } from '../../../schemas/cohorts/vocabulary.ts'

describe('operationsOf', () => {
  it("lets only Hearth's own servers hand over prompts", () => {
    for (const profile of ['llm-transformers', 'llm-llamacpp'])
      assert.deepEqual(operationsOf(profile, 'chat'), ['infer', 'prefill', 'decode'])
    assert.deepEqual(operationsOf('llm-vllm', 'chat'), ['infer'])
  })

  it('lets only embedding models hand over vectors', () => {
    assert.deepEqual(operationsOf('specialist-onnx', 'embeddings'), ['infer', 'embed'])
    assert.deepEqual(operationsOf('specialist-onnx', 'rerank'), ['infer'])
  })
})

describe('unmadeKinds', () => {
  const reasons = (
    kind: SpaceKind,
    from: StageOperation,
    to: StageOperation,
    runtime_profile = 'llm-transformers',
  ) => {
    const { stages, edges } = graphOf({
      stages: [
        { stage_id: 'a', endpoint_id: 'a', operation: from },
        { stage_id: 'b', endpoint_id: 'b', operation: to },
      ],
      edges: [
        { from: { stage_id: 'input' }, to: { stage_id: 'a', path: '/text' } },
        { edge_id: 'over', from: { stage_id: 'a' }, to: { stage_id: 'b', path: '/x' } },
      ],
    })
    return unmadeKinds({ stages, edges }, new Map([['over', { kind }]]), {
      models: new Map([['b', { runtime_profile }]]),
      fallbacks: new Map(),
    })
  }

  it('rejects edges whose kind no stage would produce or accept', () => {
    assert.deepEqual(reasons('embedding', 'embed', 'infer'), [])
    assert.deepEqual(reasons('kv_cache', 'prefill', 'decode'), [])
    assert.deepEqual(reasons('json', 'infer', 'embed'), [])
    assert.deepEqual(reasons('tokens', 'infer', 'infer'), [])
    assert.match(
      reasons('tokens', 'infer', 'infer', 'llm-vllm')[0]?.message ?? '',
      /llm-vllm does not accept token ids/,
    )
    assert.match(reasons('tokens', 'infer', 'decode')[0]?.message ?? '', /only with the operation "infer"/)
    for (const [kind, from, to, pattern] of [
      ['embedding', 'infer', 'infer', /hands over embedding with the operation "embed", but "a" has "infer"/],
      ['kv_cache', 'infer', 'decode', /hands over kv_cache with the operation "prefill"/],
      ['kv_cache', 'prefill', 'infer', /takes kv_cache with the operation "decode", but "b" has "infer"/],
      ['hidden_state', 'infer', 'infer', /hidden states is planned for a later version of cohorts/],
    ] as const) {
      const found = reasons(kind, from, to)
      assert.deepEqual(
        found.map(({ code, edge_id }) => [code, edge_id]),
        [['operation_not_supported', 'over']],
      )
      assert.match(found[0]?.message ?? '', pattern)
    }
  })

  it("rejects edges that hand over one stage's result in several spaces", () => {
    const { edges } = graphOf({
      stages: ['a', 'b', 'c'].map((stage_id) => ({ stage_id, endpoint_id: stage_id })),
      edges: ['b', 'c'].map((to) => ({
        edge_id: `to-${to}`,
        from: { stage_id: 'a' },
        to: { stage_id: to, path: '/x' },
      })),
    })
    const inSpaces = (b: string, c: string, kind: SpaceKind = 'embedding') =>
      severalSpaces(
        { edges },
        new Map([
          ['to-b', { kind, source_fingerprint: b }],
          ['to-c', { kind, source_fingerprint: c }],
        ]),
      ).map(({ code, edge_id }) => [code, edge_id])

    assert.deepEqual(inSpaces('one', 'two'), [['space_mismatch', 'to-c']])
    assert.deepEqual(inSpaces('one', 'one'), [])
    assert.deepEqual(inSpaces('one', 'two', 'json'), [])
  })
})
