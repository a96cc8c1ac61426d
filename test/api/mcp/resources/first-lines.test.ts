import assert from 'node:assert/strict'
import { firstLines } from '../../../../api/mcp/resources/first-lines.ts'

describe('the first records of a file', () => {
  const whole = (format: string) => ({ format, isCut: false })

  it('are its first lines', () => {
    assert.equal(firstLines('a\nb\nc\n', 2, whole('csv')), 'a\nb\n')
    assert.equal(firstLines('a\nb', 5, whole('csv')), 'a\nb')
  })

  it('may contain newlines and escaped quotes within quoted CSV fields', () => {
    const row = '1,"two\n""lines"", of it",3\n'

    assert.equal(firstLines(row + row + row, 2, whole('csv')), row + row)
  })

  it('end at a newline after a quote within an unquoted CSV field', () => {
    assert.equal(firstLines('5",a\n6,b\n7,c\n', 2, whole('csv')), '5",a\n6,b\n')
  })

  it('end at each newline in JSONL, whatever quotes precede it', () => {
    const rows = ['{"a":"5\\""}', '{"a":1}', '{"a":2}'].map((row) => `${row}\n`)

    assert.equal(firstLines(rows.join(''), 2, whole('jsonl')), rows.slice(0, 2).join(''))
  })

  it('leave out a truncated record, unless it is the only one', () => {
    assert.equal(firstLines('a\nb', 5, { format: 'csv', isCut: true }), 'a\n')
    assert.equal(firstLines('a', 5, { format: 'csv', isCut: true }), 'a')
  })
})
