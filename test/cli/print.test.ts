import assert from 'node:assert/strict'
import { inJson, plain, table } from '../../cli/print.ts'
import { drawer, writeLine } from '../../cli/screen.ts'

/** Moves the cursor, sets the window title, and starts a sequence with a one-character introducer. */
const HOSTILE = 'a\u001B[2J\u001B]0;title\u0007b\u009B31mc\u007F'

describe('CLI output', () => {
  const written = (write: (screen: { write(text: string): void; isTTY: boolean }) => void): string => {
    let text = ''
    write({ isTTY: true, write: (piece) => void (text += piece) })
    return text
  }

  it('contains no control sequences in tables, lines and redrawn text', () => {
    const cleaned = 'a[2J]0;titleb31mc'

    assert.equal(plain(`${HOSTILE}\tx\n`), `${cleaned}\tx\n`)
    assert.equal(table(['NAME'], [[HOSTILE]]), `NAME\n${cleaned}`)
    assert.equal(
      written((screen) => writeLine(screen, HOSTILE)),
      `${cleaned}\n`,
    )
    assert.equal(
      written((screen) => drawer(screen)(`x\n${HOSTILE}`)),
      `x\n${cleaned}\n`,
    )
  })

  it('escapes control characters in JSON without changing the value', () => {
    const value = { name: HOSTILE, list: [HOSTILE] }
    const text = inJson(value, 2)

    assert.equal(plain(text), text)
    assert.deepEqual(JSON.parse(text), value)
    assert.equal(inJson(undefined), 'null')
  })
})
