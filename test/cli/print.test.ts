import assert from 'node:assert/strict'
import { inJson, plain, table } from '../../cli/print.ts'
import { drawer, writeLine } from '../../cli/screen.ts'

/** Moves the cursor, sets the title of a window, and begins a sequence in one character. */
const HOSTILE = 'a\u001B[2J\u001B]0;title\u0007b\u009B31mc\u007F'

describe('what the CLI writes', () => {
  const written = (write: (screen: { write(text: string): void; isTTY: boolean }) => void): string => {
    let text = ''
    write({ isTTY: true, write: (piece) => void (text += piece) })
    return text
  }

  it('moves no cursor, in tables, lines and what is drawn over', () => {
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

  it('escapes in JSON what would move it, and keeps the value', () => {
    const value = { name: HOSTILE, list: [HOSTILE] }
    const text = inJson(value, 2)

    assert.equal(plain(text), text)
    assert.deepEqual(JSON.parse(text), value)
    assert.equal(inJson(undefined), 'null')
  })
})
