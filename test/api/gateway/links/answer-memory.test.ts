import assert from 'node:assert/strict'
import { ResponseMemory } from '../../../../api/gateway/links/response-memory.ts'

const MIB = 1024 * 1024

describe('the answer memory', () => {
  const room = () => new ResponseMemory(64 * MIB).room('a')
  const hold = (text: string) => room().holdValues(Buffer.from(text))

  it('rejects answers that would take too long to parse, because a tenant may own the node', () => {
    const names = Array.from({ length: 100_000 }, (_, nth) => `"${nth.toString(36)}":0`).join()
    const unlike = Array.from({ length: 100_000 }, (_, nth) => `{"${(nth % 19_000).toString(36)}":0}`).join()
    for (const text of [
      `{${names}}`,
      `{"a":[${unlike}]}`,
      `{"a":${'['.repeat(50_000)}${']'.repeat(50_000)}}`,
      `{"a":[${Array.from({ length: 2_000 }, () => '['.repeat(30) + ']'.repeat(30)).join()}]}`,
    ])
      assert.throws(() => hold(text), { code: 'internal', message: /too many different member names, lists/ })
  })

  it('accepts tables and embeddings', () => {
    const row = Object.fromEntries(Array.from({ length: 20 }, (_, nth) => [`column_${nth}`, nth / 7]))
    hold(JSON.stringify({ predictions: Array.from({ length: 10_000 }, () => row) }))
    hold(
      JSON.stringify({
        data: Array.from({ length: 100 }, () => Array.from({ length: 1_024 }, (_, nth) => nth / 3)),
      }),
    )
    hold(JSON.stringify({ boxes: Array.from({ length: 20_000 }, (_, nth) => [nth, 2, 3, 4]) }))
  })
})
