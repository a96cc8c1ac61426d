import assert from 'node:assert/strict'
import type { GraphEdge } from '../../../domain/cohorts/graph.ts'
import {
  type PairEvidence,
  type RegisteredSpace,
  type SpaceEdge,
  spaceHandOver,
} from '../../../domain/cohorts/handoffs.ts'
import { Metric } from '../../../schemas/cohorts/evaluator.ts'
import { valuesOf } from '../../../schemas/common.ts'

const EDGE: GraphEdge & SpaceEdge = {
  edge_id: 'vectors',
  from: { stage_id: 'encoder', path: '' },
  to: { stage_id: 'classifier', path: '/instances/0' },
  space: { source: 'output', target: 'input' },
  mode: 'transfer',
  max_bytes: 1_024,
}

const space = (name: string, role: RegisteredSpace['role']): RegisteredSpace => ({
  id: `space-${name}`,
  name,
  role,
  kind: 'embedding',
  fingerprint: `fingerprint-${name}`,
  status: 'active',
})

const evidence = (metric: Metric, more: Partial<PairEvidence> = {}): PairEvidence => ({
  id: `by-${metric}`,
  metric,
  score: 0.95,
  status: 'active',
  adapter: null,
  ...more,
})

const decide = (found: readonly PairEvidence[]) =>
  spaceHandOver(EDGE, {
    source: [space('output', 'produces')],
    target: [space('input', 'accepts')],
    evidence: found,
    minScore: 0.9,
  })

const between = (
  from: Partial<RegisteredSpace>,
  to: Partial<RegisteredSpace>,
  found: readonly PairEvidence[] = [],
) =>
  spaceHandOver(EDGE, {
    source: [{ ...space('output', 'produces'), ...from }],
    target: [{ ...space('input', 'accepts'), ...to }],
    evidence: found,
    minScore: 0.9,
  })

describe('an edge between spaces', () => {
  it('hands media over when the consumer accepts every media type of the producer', () => {
    const media = (...content_types: string[]) => ({
      kind: 'media' as const,
      content_types,
      fingerprint: content_types.join(),
    })
    for (const taken of [
      media('image/png'),
      media('audio/wav', 'image/png', 'image/jpeg'),
      media('image/*'),
    ]) {
      const handOver = between(media('image/png'), taken)
      assert.ok(!('code' in handOver), JSON.stringify(handOver))
      assert.deepEqual([handOver.kind, handOver.evidence_id], ['media', null])
      // The nodes see one space on both sides, whatever the types are.
      assert.equal(handOver.source_fingerprint, handOver.target_fingerprint)
    }
    for (const taken of [media('image/jpeg'), media('audio/*'), media('image/pngs')]) {
      const refused = between(media('image/png', 'image/jpeg'), taken)
      assert.ok('code' in refused)
      assert.equal(refused.code, 'space_mismatch')
      assert.match(refused.message, /"output" gives .*image\/png.* and "input" takes/)
    }
  })

  it("needs no evidence for kinds that can't have any", () => {
    const refused = between({ kind: 'tokens' }, { kind: 'tokens' })
    assert.ok('code' in refused)
    assert.equal(refused.code, 'space_mismatch')
    assert.match(refused.message, /tokenizers/)
    const equal = between({ kind: 'tokens', fingerprint: 'one' }, { kind: 'tokens', fingerprint: 'one' })
    assert.ok(!('code' in equal))
  })

  it("rejects an adapter for a cache, because nodes can't apply one", () => {
    const cache = { kind: 'kv_cache' as const }
    const mapped = between(cache, cache, [evidence('cosine', { adapter: {} })])
    assert.ok('code' in mapped)
    assert.equal(mapped.code, 'evidence_missing')
    assert.ok(!('code' in between(cache, cache, [evidence('cosine')])))
    assert.ok(!('code' in between({}, {}, [evidence('cosine', { adapter: {} })])))
  })
})

describe('the evidence of an edge', () => {
  it('uses the strongest metric, in whatever order the evidence is listed', () => {
    const strongestFirst = ['consumer_agreement', 'retrieval_overlap', 'cosine', 'r2'] as const
    assert.deepEqual(valuesOf(Metric).toSorted(), strongestFirst.toSorted())
    for (const [i, metric] of strongestFirst.entries()) {
      const candidates = strongestFirst.slice(i).map((one) => evidence(one))
      for (const found of [candidates, candidates.toReversed()]) {
        const handOver = decide(found)
        assert.ok(!('code' in handOver))
        assert.equal(handOver.evidence_id, `by-${metric}`)
      }
    }
  })

  it('is insufficient when its strongest metric fails, even if a weaker one would allow the edge', () => {
    const cosine = evidence('cosine', { score: 0.99 })
    const codes = [
      decide([cosine, evidence('retrieval_overlap', { score: 0.5 })]),
      decide([cosine, evidence('retrieval_overlap', { status: 'expired' })]),
      decide([cosine, evidence('consumer_agreement', { status: 'revoked' })]),
      decide([]),
    ].map((one) => 'code' in one && one.code)
    assert.deepEqual(codes, [
      'evidence_below_threshold',
      'evidence_expired',
      'evidence_revoked',
      'evidence_missing',
    ])
  })
})

describe('an edge between spaces of different kinds', () => {
  const kinds = (source: RegisteredSpace['kind'], target: RegisteredSpace['kind']) =>
    spaceHandOver(EDGE, {
      source: [{ ...space('output', 'produces'), kind: source }],
      target: [{ ...space('input', 'accepts'), kind: target }],
      evidence: [],
      minScore: 0.9,
    })

  it('is rejected, and for a table the message names the missing "same_as"', () => {
    const [table, text] = [kinds('embedding', 'json'), kinds('text', 'embedding')]

    assert.ok('code' in table && 'code' in text)
    assert.deepEqual([table.code, text.code], ['space_mismatch', 'space_mismatch'])
    assert.match(
      table.message,
      /"output" of its source is embedding, and "input" of its target is json until .*same_as/,
    )
    assert.match(text.message, /"input" of its target is embedding$/)
  })
})
