import assert from 'node:assert/strict'
import { safeNames } from '../../../api/mcp/names.ts'
import { ToolList } from '../../../api/mcp/tool-list.ts'
import { type Tool } from '../../../api/mcp/tool.ts'
import { BUILT_IN_TOOLS } from '../../../api/mcp/tools/index.ts'
import { recallTool } from '../../../api/mcp/tools/recall.ts'
import { rememberTool } from '../../../api/mcp/tools/remember.ts'
import { isReserved } from '../../../domain/actions/reserved.ts'

const SAFE = /^[A-Za-z0-9_-]{1,64}$/

describe('tool names for clients that reject dots', () => {
  it('keep a valid slug, and replace disallowed characters', () => {
    assert.deepEqual(
      [...safeNames(['training.merge', 'sales-churn_2'])],
      [
        ['training.merge', 'training_merge'],
        ['sales-churn_2', 'sales-churn_2'],
      ],
    )
  })

  it('are unique and short for slugs that collide or are too long, in any order', () => {
    const long = `a${'.long'.repeat(19)}`
    const slugs = ['a.b', 'a_b', 'a-b', 'a..b', 'a._b', long, `${long}x`]

    const names = safeNames(slugs)

    assert.equal(names.get('a_b'), 'a_b')
    assert.equal(new Set(names.values()).size, slugs.length)
    for (const name of names.values()) assert.match(name, SAFE)
    const turned = safeNames(slugs.toReversed())
    for (const slug of slugs) assert.equal(turned.get(slug), names.get(slug))
  })
})

describe('the names of platform tools', () => {
  for (const { name } of [...BUILT_IN_TOOLS, rememberTool, recallTool])
    it(`reserve ${name}`, () => assert.ok(isReserved(name)))
})

describe('a tool list', () => {
  const tool = (name: string): Tool => ({
    name,
    title: name,
    description: name,
    inputSchema: { type: 'object' },
    annotations: {},
    call: () => Promise.reject(new Error('not called')),
  })
  const many = (count: number) =>
    Array.from({ length: count }, (_, at) => tool(`tool.${String(at).padStart(4, '0')}`))

  const namesIn = (bytes: Buffer): string[] =>
    (JSON.parse(`[${String(bytes)}]`) as Tool[]).map(({ name }) => name)

  it('is returned in pages that cover every tool once', async () => {
    const list = ToolList.of(many(2_500))

    const names: string[] = []
    for (let cursor: string | undefined, more = true; more;) {
      const page = await list.page(cursor, 'safe')
      names.push(...namesIn(page.bytes))
      cursor = page.nextCursor
      more = cursor !== undefined
    }

    assert.equal(new Set(names).size, 2_500)
    assert.ok(names.every((name) => SAFE.test(name)))
  })

  it('rejects the cursor of a list that has changed, and an invented one', async () => {
    const { nextCursor } = await ToolList.of(many(2_500)).page(undefined, 'slugs')

    for (const cursor of [nextCursor, 'x', '', Buffer.from('..').toString('base64url')]) {
      await assert.rejects(ToolList.of(many(2_501)).page(cursor, 'slugs'), /list them again without a cursor/)
    }
  })

  it('finds a tool by either of its names', () => {
    const list = ToolList.of([tool('training.merge')])

    assert.equal(list.find('training.merge')?.name, 'training.merge')
    assert.equal(list.find('training_merge')?.name, 'training.merge')
    assert.equal(list.find('training-merge'), undefined)
  })
})
