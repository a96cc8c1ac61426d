import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { CHAT_PATH } from '../../../../domain/chat/chat.ts'
import { dieOnce } from '../../../support/assertions/die-once.ts'
import { SOON_MS, until } from '../../../support/assertions/until.ts'
import { ChatApi, eventsOf, openStream, startChatNode } from '../../../support/servers/chat-api.ts'

const base64 = (text: string | Uint8Array) => Buffer.from(text as Uint8Array).toString('base64')

/** Cuts bytes into pieces of one size, even within a character. */
function cut(text: string, size: number): string[] {
  const bytes = Buffer.from(text)
  const pieces: string[] = []
  for (let at = 0; at < bytes.length; at += size) pieces.push(base64(bytes.subarray(at, at + size)))
  return pieces
}

const event = (value: object) => `data: ${JSON.stringify(value)}\n\n`
const delta = (content: object) => event({ choices: [{ index: 0, delta: content, finish_reason: null }] })

/** Returns text of at least `length` UTF-16 units without repetition, with characters of every length in UTF-8. */
function prose(length: number): string {
  let text = ''
  for (let i = 0; text.length < length; i++) text += `${i} é"\\ 漢 🌍\n`
  return text
}

/** Reports where two long strings differ, because `assert.equal` would print both in full. */
function assertSame(actual: string, expected: string): void {
  if (actual === expected) return
  let at = 0
  while (actual[at] === expected[at]) at++
  const around = (text: string) =>
    `${JSON.stringify(text.slice(Math.max(0, at - 30), at + 30))} of ${text.length}`
  assert.fail(`at ${at}: ${around(actual)} instead of ${around(expected)}`)
}

describe('chat streams', () => {
  let chat: ChatApi
  before(async () => {
    chat = await ChatApi.start()
  })
  after(() => chat[Symbol.asyncDispose]())

  const golden: Record<string, string> = {
    'tool-call fragments':
      delta({ role: 'assistant', content: null }) +
      delta({
        tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'f', arguments: '' } }],
      }) +
      delta({ tool_calls: [{ index: 0, function: { arguments: '{"a"' } }] }) +
      delta({ tool_calls: [{ index: 0, function: { arguments: ':1}' } }] }) +
      event({ choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] }) +
      'data: [DONE]\n\n',
    'a usage chunk with empty choices':
      delta({ content: 'x' }) +
      event({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 } }) +
      'data: [DONE]\n\n',
    'multi-byte characters': delta({ content: 'Grüße 🌍🏔️ 漢字' }) + 'data: [DONE]\n\n',
    'reasoning, and text that contains [DONE],':
      delta({ reasoning_content: 'so: data: [DONE]' }) +
      delta({ content: 'data: [DONE]\n\n' }) +
      'data: [DONE]\n\n',
    'carriage returns and comments': ': hello\r\n\r\ndata: {"choices":[]}\r\n\r\ndata: [DONE]\r\n\r\n',
  }
  for (const [what, text] of Object.entries(golden)) {
    for (const size of [1, 7, 64, 100_000]) {
      it(`carry ${what} unchanged, in pieces of ${size}`, async () => {
        const endpoint = await warm()

        const answer = await chat.chat(endpoint.id, {
          stream: true,
          fake: { pieces: cut(text, size), gap_ms: 0 },
        })

        assert.equal(answer.text, text)
      })
    }
  }

  let loaded: Awaited<ReturnType<ChatApi['warm']>> | undefined
  const warm = async () => (loaded ??= await chat.warm())

  it('count the tokens of a usage chunk with empty choices', async () => {
    const endpoint = await chat.warm()
    const text = golden['a usage chunk with empty choices']!

    await chat.chat(endpoint.id, { stream: true, fake: { pieces: cut(text, 50) } })

    await until(async () => {
      const rows = await chat.api.database.db
        .selectFrom('usage_delta')
        .select('tokens')
        .where('endpoint_id', '=', endpoint.id)
        .execute()
      return rows.reduce((sum, { tokens }) => sum + Number(tokens), 0) === 7
    })
  })

  it('end with a single [DONE], whether the model server omits it or continues after it', async () => {
    const endpoint = await warm()

    const without = await chat.chat(endpoint.id, { stream: true, fake: { no_done: true } })
    const pieces = [base64(`${delta({})}data: [DONE]\n\ndata: [DONE]\n\n${delta({})}`)]
    const twice = await chat.chat(endpoint.id, { stream: true, fake: { pieces } })

    for (const { text } of [without, twice]) {
      const events = eventsOf(text)
      assert.equal(events.filter((data) => data === '[DONE]').length, 1)
      assert.equal(events.at(-1), '[DONE]')
    }
  })

  for (const stream of [false, true]) {
    it(`carry a prompt of 200 KB to the model server byte for byte (stream: ${stream})`, async () => {
      const endpoint = await warm()
      const messages = [{ role: 'user', content: prose(200_000) }]
      // Whitespace and escapes that a serializer wouldn't reproduce.
      const sent = `{ "model" :"${endpoint.id}",\n"messages":${JSON.stringify(messages)}, "stream":${stream}, "x":"\\u00fc\\/" }`

      const { status } = await chat.api.call('POST', CHAT_PATH, {
        raw: sent,
        headers: { authorization: `Bearer ${chat.caller.key}` },
      })

      assert.equal(status, 200)
      assertSame((await chat.stats(endpoint)).last, sent)
    })
  }

  it('carry a response of 1 MB byte for byte, in small events and in large ones', async () => {
    const endpoint = await warm()
    const content = prose(1_000_000)
    for (const size of [500, 200_000]) {
      let text = ''
      for (let at = 0; at < content.length; at += size)
        text += delta({ content: content.slice(at, at + size) })
      text += 'data: [DONE]\n\n'

      const answer = await chat.chat(endpoint.id, {
        stream: true,
        fake: { pieces: cut(text, 37_777), gap_ms: 0 },
      })

      assertSame(answer.text, text)
    }
  })

  it('carry a response of 1 MB byte for byte, without streaming', async () => {
    const endpoint = await warm()
    const message = { role: 'assistant', content: prose(1_000_000) }
    const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 }
    const choices = [{ index: 0, message, finish_reason: 'stop' }]
    const text = JSON.stringify({ id: 'x', object: 'chat.completion', choices, usage }, undefined, 1)

    const answer = await chat.chat(endpoint.id, {
      fake: { pieces: cut(text, 37_777), gap_ms: 0, content_type: 'application/json' },
    })

    assertSame(answer.text, text)
  })

  it('send the whole completion as one chunk when the server does not stream', async () => {
    const endpoint = await warm()
    const message = {
      role: 'assistant',
      content: 'hi',
      tool_calls: [{ id: 'a', type: 'function', function: {} }],
    }
    const whole = {
      id: 'x',
      object: 'chat.completion',
      choices: [{ index: 0, message, finish_reason: 'stop' }],
    }
    const fake = { pieces: [base64(JSON.stringify(whole))], content_type: 'application/json' }

    const { text } = await chat.chat(endpoint.id, { stream: true, fake })

    const [chunk = '', done] = eventsOf(text)
    assert.equal(done, '[DONE]')
    assert.equal(JSON.parse(chunk).object, 'chat.completion.chunk')
    assert.equal(JSON.parse(chunk).choices[0].delta.content, 'hi')
    assert.equal(JSON.parse(chunk).choices[0].delta.tool_calls[0].index, 0)
  })

  it('fail with an error when the response cannot be passed on, and the gateway keeps serving', async () => {
    const endpoint = await chat.warm()
    const nested = `{"choices":${'['.repeat(30_000)}${']'.repeat(30_000)}}`

    const { status, body } = await chat.chat(endpoint.id, {
      stream: true,
      fake: { pieces: [Buffer.from(nested).toString('base64')], content_type: 'application/json' },
    })

    assert.equal(status, 500)
    assert.equal(body.error.message, "the model's response could not be forwarded")
    assert.equal((await chat.chat(endpoint.id)).status, 200)
  })

  it('end with an error event and a failed task when the model server dies', async () => {
    const endpoint = await chat.warm()

    const answer = await chat.chat(endpoint.id, {
      stream: true,
      fake: { tokens: 50, gap_ms: 5, die_after: 3 },
    })

    const events = eventsOf(answer.text)
    assert.equal(answer.status, 200)
    assert.equal(events.at(-1), '[DONE]')
    assert.equal(JSON.parse(events.at(-2) ?? '').error.type, 'server_error')
    await until(async () => (await chat.task(answer)).status === 'failed')
  })

  for (const stream of [false, true]) {
    it(`are retried once on another node when the model server dies before the first byte (stream: ${stream})`, async () => {
      using death = await dieOnce()
      await using other = await startChatNode(chat.api)
      const endpoint = await chat.warm({}, [chat.node, other])

      const saved = await chat.chat(endpoint.id, { stream, fake: { die_once: death.path } })

      assert.equal(saved.status, 200)
      await until(async () => (await chat.task(saved)).status === 'succeeded')
    })
  }

  it('are retried on other nodes as long as model servers refuse connections', async () => {
    await using second = await startChatNode(chat.api)
    await using third = await startChatNode(chat.api)
    const endpoint = await chat.warm({}, [chat.node, second, third])
    for (const deaf of [true, true]) {
      assert.equal((await chat.chat(endpoint.id, { fake: { deaf } })).status, 200)
    }

    for (let i = 0; i < 12; i++) assert.equal((await chat.chat(endpoint.id, {})).status, 200)
  })

  it('fail when the second model server dies as well', async () => {
    await using other = await startChatNode(chat.api)
    const endpoint = await chat.warm({}, [chat.node, other])

    const { status, body } = await chat.chat(endpoint.id, { stream: true, fake: { die_after: -1 } })

    assert.equal(status, 500)
    assert.match(body.error.message, /dropped the connection/)
  })

  it('are aborted at the model server within a second when the client disconnects', async () => {
    const endpoint = await chat.warm()
    const leave = new AbortController()
    const before = await openStream(chat, endpoint.id, { fake: { tokens: 1_000, gap_ms: 10 } }, leave.signal)
    for await (const _chunk of before.body.on('error', () => {})) break
    const stay = new AbortController()
    const other = openStream(chat, endpoint.id, { fake: { delay_ms: 60_000 } }, stay.signal)
    const quiet = openStream(chat, endpoint.id, { fake: { delay_ms: 60_000 } }, leave.signal)
    await until(async () => (await chat.stats(endpoint)).in_flight === 2)

    leave.abort()

    await assert.rejects(quiet)
    await until(async () => (await chat.stats(endpoint)).in_flight === 1, SOON_MS)
    stay.abort()
    await assert.rejects(other)
  })

  it('wait for a slow reader without delaying others', async () => {
    const endpoint = await chat.warm()
    const slow = await openStream(chat, endpoint.id, { fake: { tokens: 400, size: 60_000 } })
    await sleep(500)

    const quick = await chat.chat(endpoint.id, { stream: true, fake: { tokens: 20 } })

    assert.equal(eventsOf(quick.text).length, 23)
    assert.equal((await chat.stats(endpoint)).in_flight, 1)
    assert.equal(eventsOf(await slow.body.text()).length, 403)
  })
})
