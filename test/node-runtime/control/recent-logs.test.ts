import assert from 'node:assert/strict'
import { TOKEN_PREFIX } from '../../../domain/token-prefixes.ts'
import { RecentLogs } from '../../../node-runtime/control/recent-logs.ts'

const MANY = 1_000_000

describe("a node's recent logs", () => {
  const messages = (lines: RecentLogs, limit = 5_000, bytes = MANY) =>
    lines.newest('node', limit, bytes).map(({ message }) => message)

  it('are the latest thousand lines, each of limited length, within a limit on total size', () => {
    const lines = new RecentLogs()
    for (let n = 0; n < 4_500; n++) lines.keep('node', String(n))
    const all = messages(lines)

    assert.deepEqual([all.length, all[0], all.at(-1)], [1_000, '3500', '4499'])
    assert.deepEqual(messages(lines, 2), ['4498', '4499'])
    assert.deepEqual(messages(lines, 5_000, 10), [])
    const some = lines.newest('node', 5_000, 2_000)
    assert.equal(some.at(-1)?.message, '4499')
    const bytes = Buffer.byteLength(JSON.stringify(some))
    assert.ok(bytes > 1_900 && bytes <= 2_001, `${bytes}`)
    lines.keep('node', 'x'.repeat(MANY))
    assert.equal(messages(lines, 1)[0]?.length, 2_001)
    lines.keep('node', `${'x'.repeat(1_990)} hk_${'a'.repeat(43)}`)
    assert.equal(messages(lines, 1)[0], `${'x'.repeat(1_990)} ***`)
  })

  it('distinguish the process from its model servers, and contain no key or signature', () => {
    const lines = new RecentLogs()
    lines.keep('models', 'GET http://127.0.0.1/objects/a?expires=1&signature=abc gives 404', 'm')
    lines.keep('node', `refused hk_${'a'.repeat(43)} and hkl_${'b'.repeat(43)}; see https://hearth.example/a`)

    const [line] = lines.newest('models', 10, MANY)
    assert.deepEqual([line?.model_key, line?.message], ['m', 'GET http://127.0.0.1/objects/a?*** gives 404'])
    assert.deepEqual(messages(lines), ['refused *** and ***; see https://hearth.example/a'])
    for (const before of [JSON.stringify('\n').slice(1, -1), '\u001b[32m', 'KEY_', '%3D']) {
      lines.keep('node', `${before}hk_${'d'.repeat(43)}`)
      assert.equal(messages(lines, 1)[0], `${before}***`)
    }
    for (const prefix of Object.values(TOKEN_PREFIX)) {
      lines.keep('node', `no ${prefix}${'c'.repeat(32)} here`)
      assert.equal(messages(lines, 1)[0], 'no *** here')
    }
  })
})
