import assert from 'node:assert/strict'
import { matchesGlob, ToolFilter } from '../../../domain/tools/filter.ts'

const CHURN = { slug: 'sales-churn', kind: 'trained_model', stability: 'beta' } as const

describe('tool filters', () => {
  for (const [pattern, text, expected] of [
    ['sales-*', 'sales-churn', true],
    ['sales-*', 'sales-', true],
    ['sales-*', 'presales-churn', false],
    ['*', '', true],
    ['*-churn', 'sales-churn', true],
    ['s*s*n', 'sales-churn', true],
    ['s*x*n', 'sales-churn', false],
    ['a*a', 'a', false],
    ['ab*bc', 'abc', false],
    ['sales.churn', 'sales-churn', false],
    ['training.merge', 'training.merge', true],
  ] as const) {
    it(`${pattern} ${expected ? 'matches' : 'does not match'} ${JSON.stringify(text)}`, () => {
      assert.equal(matchesGlob(pattern, text), expected)
    })
  }

  it('match a pattern with many stars in bounded time', () => {
    const began = performance.now()
    assert.equal(matchesGlob(`${'*a'.repeat(50)}b`, 'a'.repeat(100)), false)
    assert.ok(performance.now() - began < 1_000)
  })

  it('accept a tool that satisfies one entry of each kind', () => {
    const allows = (...entries: string[]) => ToolFilter.ofKey(entries).allows(CHURN)

    assert.ok(allows('sales-*'))
    assert.ok(allows('other', 'sales-churn'))
    assert.ok(allows('kind:trained_model', 'kind:llm', 'stability:beta', 'sales-*'))
    assert.equal(allows('kind:llm', 'sales-*'), false)
    assert.equal(allows('stability:stable'), false)
    assert.equal(allows(), false)
    assert.equal(ToolFilter.ofKey(['kind:llm']).allows({ slug: 'list_endpoints' }), false)
    assert.ok(ToolFilter.ofKey(['list_endpoints']).allows({ slug: 'list_endpoints' }))
  })

  it('have the same id for equal rules', () => {
    assert.equal(ToolFilter.ofKey(['b', 'a', 'a']).id, ToolFilter.ofKey(['a', 'b']).id)
    assert.notEqual(ToolFilter.ofKey(['a']).id, ToolFilter.ofKey(['kind:a']).id)
    assert.equal(new ToolFilter({}).limits, false)
  })
})
