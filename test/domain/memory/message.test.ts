import assert from 'node:assert/strict'
import {
  leadingMessage,
  memoryText,
  memoryTokens,
  queryOf,
  withinBudget,
} from '../../../domain/memory/message.ts'

const at = new Date('2026-01-02T03:04:05Z')
const entry = (text: string) => ({ text, at, tokens: memoryTokens(text) })

describe('the memory message', () => {
  it('lists the entries with their dates', () => {
    assert.match(
      memoryText([entry(' likes tea '), entry('has a cat')]),
      /:\n- \[2026-01-02\] likes tea\n- .*cat$/,
    )
  })

  it('stays within the token budget and skips entries that do not fit', () => {
    const entries = [entry('a'.repeat(90)), entry('b'.repeat(3_000)), entry('c'), entry('d'.repeat(90))]

    const chosen = withinBudget(entries, 100)

    assert.deepEqual(
      chosen.map(({ text }) => text[0]),
      ['a', 'c'],
    )
    assert.ok(memoryTokens(memoryText(chosen)) <= 100 + memoryTokens(''))
    assert.deepEqual(withinBudget(entries, 1), [])
  })

  it('counts non-Latin text by its bytes', () => {
    assert.ok(memoryTokens('日本語') > memoryTokens('abc'))
  })

  it("precedes messages without a system message, and is appended to the caller's own system message otherwise", () => {
    const cases: [object, object, boolean][] = [
      [{ role: 'user', content: 'hi' }, { role: 'system', content: 'M' }, false],
      [{ role: 'system', content: 'S' }, { role: 'system', content: 'S\n\nM' }, true],
      [{ role: 'developer', content: 'S' }, { role: 'developer', content: 'S\n\nM' }, true],
      [{ role: 'assistant', content: null }, { role: 'system', content: 'M' }, false],
    ]

    for (const [first, message, replaces] of cases)
      assert.deepEqual(leadingMessage(first, 'M'), { message, replaces })
  })

  it("is looked up by the user's last message", () => {
    const parts = [{ type: 'text', text: 'what is' }, { type: 'image_url' }, { type: 'text', text: 'this?' }]

    assert.equal(
      queryOf([
        { role: 'user', content: 'a' },
        { role: 'user', content: parts },
      ]),
      'what is\nthis?',
    )
    assert.equal(
      queryOf([
        { role: 'user', content: 'a' },
        { role: 'assistant', content: 'b' },
      ]),
      'a',
    )
    assert.equal(queryOf([{ role: 'system', content: 'a' }]), '')
    assert.equal(queryOf([{ role: 'user', content: 'x'.repeat(9_000) }]).length, 2_000)
  })
})
