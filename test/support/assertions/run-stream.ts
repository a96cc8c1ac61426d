import assert from 'node:assert/strict'
import { request } from 'undici'
import type { AnyBody } from '../servers/api.ts'

/** An event from a run's stream. */
export interface StreamEvent {
  event: string
  id: string
  data: AnyBody
}

export interface RunStream extends Disposable {
  /** The events so far. */
  readonly events: StreamEvent[]
  readonly comments: string[]
  /** Resolves when the response ends; true if it ended properly. */
  readonly ended: Promise<boolean>
}

/** Reads the stream of a run as a browser does. */
export async function followRun(
  url: string,
  { key, lastEventId }: { key: string; lastEventId?: string | undefined },
): Promise<RunStream> {
  const leaving = new AbortController()
  const answer = await request(url, {
    headers: { 'x-api-key': key, ...(lastEventId !== undefined && { 'last-event-id': lastEventId }) },
    signal: leaving.signal,
  })
  assert.equal(answer.statusCode, 200)
  assert.match(String(answer.headers['content-type']), /^text\/event-stream/)
  const events: StreamEvent[] = []
  const comments: string[] = []
  const read = async () => {
    let text = ''
    for await (const chunk of answer.body.setEncoding('utf8')) {
      const blocks = (text + String(chunk)).split('\n\n')
      text = blocks.pop() ?? ''
      for (const block of blocks) {
        if (block.startsWith(':') || block.startsWith('retry:')) comments.push(block)
        else events.push(parse(block))
      }
    }
  }
  const ended = read().then(
    () => true,
    () => false,
  )
  return { events, comments, ended, [Symbol.dispose]: () => leaving.abort() }
}

function parse(block: string): StreamEvent {
  const fields = new Map(
    block.split('\n').map((line) => [line.slice(0, line.indexOf(': ')), line.slice(line.indexOf(': ') + 2)]),
  )
  return {
    event: fields.get('event') ?? '',
    id: fields.get('id') ?? '',
    data: JSON.parse(fields.get('data') ?? ''),
  }
}
