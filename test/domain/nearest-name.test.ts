import assert from 'node:assert/strict'
import { asker, didYouMean } from '../../domain/nearest-name.ts'

describe('didYouMean', () => {
  it('suggests the name with the fewest edits, if it is close enough', () => {
    const expected: [string, string[], string | undefined][] = [
      ['epohcs', ['epoch', 'epochs'], 'epochs'],
      ['Epochs', ['epochs'], 'epochs'],
      ['abcdefgh', ['abcdefgh-12', 'bcdefghij'], 'abcdefgh-12'],
      ['abcdefgh', ['abcdefgh-123'], undefined],
      ['12abcdefgh', ['abcdefgh'], 'abcdefgh'],
      ['badcfe78', ['abcdef78'], 'abcdef78'],
      ['badcfehg', ['abcdefgh'], undefined],
      ['ab', ['ba'], undefined],
      ['xab', ['xba'], 'xba'],
      ['', ['a', ''], ''],
    ]

    for (const [typed, names, near] of expected)
      assert.equal(didYouMean(typed, names), near === undefined ? '' : `did you mean "${near}"?`, typed)
  })

  it('suggests names for only the first lookups of a request, and stays fast with many names', () => {
    const names = Array.from({ length: 1_000 }, (_, i) => 'a'.repeat(58) + String(i).padStart(5, '0'))
    const meant = asker(names)
    const begun = performance.now()

    const suggestions = Array.from({ length: 10_000 }, (_, i) =>
      meant(`${names[i % 320]!.slice(0, -1)}x${i % 5}`),
    )

    assert.equal(new Set(suggestions).size > 1, true)
    assert.equal(suggestions.at(-1), '')
    assert.equal(
      meant(`${names[0]!.slice(0, -1)}x0`),
      'did you mean "' + names[0] + '"?',
      'a repeated lookup must get the same suggestion',
    )
    assert.ok(performance.now() - begun < 1_500, `took ${performance.now() - begun} ms`)
  })
})
