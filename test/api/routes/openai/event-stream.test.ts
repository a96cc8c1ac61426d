import assert from 'node:assert/strict'
import { dataOf } from '../../../../api/routes/openai/calls/event-data.ts'
import { EventStream } from '../../../../api/routes/openai/chat-completions/event-stream.ts'

const event = (value: object | string, gap = '\n\n') =>
  `data: ${typeof value === 'string' ? value : JSON.stringify(value)}${gap}`
const word = (content: string, usage: object | null = null) => ({ choices: [{ delta: { content } }], usage })
const usage = { prompt_tokens: 12, completion_tokens: 200, total_tokens: 212 }

/** Returns the tokens that a stream counts, for events in these pieces. */
function tokensOf(...pieces: string[]): number {
  const events = new EventStream({ grow: () => true })
  for (const piece of pieces) events.take(Buffer.from(piece))
  const { in: read, out } = events.tokens()
  return read + out
}

describe('the tokens of a stream', () => {
  const words = Array.from({ length: 200 }, (_, i) => event(word(`w${i}`)))

  it('are those of its last count, of however many events came at once', () => {
    const counts = event({ choices: [], usage })
    assert.equal(tokensOf([...words, counts, event('[DONE]')].join('')), 212)
    assert.equal(tokensOf(words.join(''), counts, event('[DONE]')), 212)
    const earlier = event(word('a', { total_tokens: 3 }))
    assert.equal(tokensOf([earlier, ...words, counts].join('')), 212)
    assert.equal(tokensOf([earlier, ...words].join('')), 3)
  })

  it('are found with carriage returns, and beside text that speaks of usage', () => {
    const said = event(word('the "usage" of words'), '\r\n\r\n')
    const counts = event({ choices: [], usage }, '\r\n\r\n')
    assert.equal(tokensOf([said, counts, said, event('[DONE]', '\r\n\r\n')].join('')), 212)
  })

  it('are none where nothing is counted', () => {
    assert.equal(tokensOf(words.join('')), 0)
    assert.equal(tokensOf(event('no "usage" here')), 0)
  })

  it('are not searched in an event that would take long to parse, also not by translated streams', () => {
    const names = Object.fromEntries(Array.from({ length: 100_000 }, (_, nth) => [`k${nth}`, 0]))
    const long = event({ ...word('long '.repeat(100_000)), usage })

    assert.equal(tokensOf(event({ choices: [], ...names, usage })), 0)
    assert.equal(dataOf(event({ choices: [], ...names })), undefined)
    assert.equal(tokensOf(long), 212)
    assert.equal(dataOf(long), long.slice('data:'.length).trimEnd())
  })
})
