import assert from 'node:assert/strict'
import { dataOf } from '../../../../api/routes/openai/calls/event-data.ts'
import { EventStream } from '../../../../api/routes/openai/chat-completions/event-stream.ts'

const event = (value: object | string, gap = '\n\n') =>
  `data: ${typeof value === 'string' ? value : JSON.stringify(value)}${gap}`
const word = (content: string, usage: object | null = null) => ({ choices: [{ delta: { content } }], usage })
const usage = { prompt_tokens: 12, completion_tokens: 200, total_tokens: 212 }

/** Returns the tokens that a stream counts when its events arrive in these pieces. */
function tokensOf(...pieces: string[]): number {
  const events = new EventStream({ grow: () => true })
  for (const piece of pieces) events.take(Buffer.from(piece))
  const { in: read, out } = events.tokens()
  return read + out
}

describe('the token count of a stream', () => {
  const words = Array.from({ length: 200 }, (_, i) => event(word(`w${i}`)))

  it('is the last reported count, however many events arrive at once', () => {
    const counts = event({ choices: [], usage })
    assert.equal(tokensOf([...words, counts, event('[DONE]')].join('')), 212)
    assert.equal(tokensOf(words.join(''), counts, event('[DONE]')), 212)
    const earlier = event(word('a', { total_tokens: 3 }))
    assert.equal(tokensOf([earlier, ...words, counts].join('')), 212)
    assert.equal(tokensOf([earlier, ...words].join('')), 3)
  })

  it('is found with carriage returns, and next to text that mentions usage', () => {
    const textEvent = event(word('the "usage" of words'), '\r\n\r\n')
    const counts = event({ choices: [], usage }, '\r\n\r\n')
    assert.equal(tokensOf([textEvent, counts, textEvent, event('[DONE]', '\r\n\r\n')].join('')), 212)
  })

  it('is zero when no event reports usage', () => {
    assert.equal(tokensOf(words.join('')), 0)
    assert.equal(tokensOf(event('no "usage" here')), 0)
  })

  it('is not searched for in an event that would take too long to parse, nor in translated streams', () => {
    const names = Object.fromEntries(Array.from({ length: 100_000 }, (_, nth) => [`k${nth}`, 0]))
    const long = event({ ...word('long '.repeat(100_000)), usage })

    assert.equal(tokensOf(event({ choices: [], ...names, usage })), 0)
    assert.equal(dataOf(event({ choices: [], ...names })), undefined)
    assert.equal(tokensOf(long), 212)
    assert.equal(dataOf(long), long.slice('data:'.length).trimEnd())
  })
})
