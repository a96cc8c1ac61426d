import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { EndpointRow } from '../../db/tables/models.ts'
import { until } from '../support/assertions/until.ts'
import { HearthRunner } from '../support/builders/run-hearth.ts'
import { ChatApi } from '../support/servers/chat-api.ts'

const TOLD = /\((\d+) tokens, [\d.]+ tok\/s, first token after [\d.]+ s\)/

describe('hearth chat', () => {
  let on: ChatApi
  let hearth: HearthRunner
  let endpoint: EndpointRow
  before(async () => {
    on = await ChatApi.start()
    endpoint = await on.warm({ name: 'talker' })
    hearth = new HearthRunner({ HEARTH_BASE_URL: on.api.baseUrl, HEARTH_API_KEY: on.caller.key })
  })
  after(async () => {
    hearth?.[Symbol.dispose]()
    await on?.[Symbol.asyncDispose]()
  })

  const lastMessages = async (): Promise<unknown> => JSON.parse((await on.stats(endpoint)).last).messages

  it('streams an answer and prints its speed at the end', async () => {
    const { code, out, err } = await hearth.run([
      'chat',
      'talker',
      '-m',
      'Hello',
      '--max-tokens',
      '4',
      '--temperature',
      '0',
    ])

    assert.equal(code, 0, err)
    assert.match(out, / t0@\d+/)
    assert.match(err, TOLD)
    const chatRequest = JSON.parse((await on.stats(endpoint)).last)
    assert.deepEqual([chatRequest.stream, chatRequest.max_tokens, chatRequest.temperature], [true, 4, 0])
  })

  it('holds a conversation line by line with a system prompt, and starts over after /reset', async () => {
    const lines = ['one', 'two', '/system Be brief.', '/reset', 'three', '/what', '', '/exit', 'four']
    const { code, out, err } = await hearth.run(['chat', 'talker'], { stdin: lines.join('\n') })

    assert.equal(code, 0, err)
    assert.equal(out.trim().split('\n').length, 3)
    assert.equal(err.match(new RegExp(TOLD, 'g'))?.length, 3)
    assert.match(err, /system prompt: Be brief\.[^]*conversation reset[^]*unknown command \/what; \/reset/)
    assert.deepEqual(await lastMessages(), [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'three' },
    ])
  })

  it('sends the earlier messages of the conversation', async () => {
    const { out } = await hearth.run(['chat', 'talker'], { stdin: 'one\ntwo\n' })
    const [first = ''] = out.split('\n')

    assert.deepEqual(await lastMessages(), [
      { role: 'user', content: 'one' },
      { role: 'assistant', content: first },
      { role: 'user', content: 'two' },
    ])
  })

  it('prints each answer as JSON for scripts', async () => {
    const { content, tokens } = await hearth.json(['chat', 'talker', '-m', 'Hello'])

    assert.match(content, / t0@\d+/)
    assert.ok(tokens > 0)
  })

  it('exits on Ctrl-C', async () => {
    const child = hearth.start(['chat', 'talker'])
    let err = ''
    child.stderr?.on('data', (chunk: Buffer) => (err += chunk.toString()))
    child.stdin?.write('one\n')
    await until(() => TOLD.test(err))
    child.kill('SIGINT')
    const [code] = await once(child, 'exit')

    assert.equal(code, 0)
  })

  for (const [fault, args, env, pattern, exit] of [
    ['an unknown model', ['nobody', '-m', 'x'], {}, /nobody.*\((not_found|model_not_found)\)/, 1],
    ['a rejected key', ['talker', '-m', 'x'], { HEARTH_API_KEY: 'hk_no' }, /rejects this API key/, 2],
    [
      'an unreachable platform',
      ['talker', '-m', 'x'],
      { HEARTH_BASE_URL: 'http://127.0.0.1:1' },
      /Cannot reach/,
      1,
    ],
    ['a missing model', [], {}, /missing required argument 'model'/, 2],
    ['a blank message', ['talker', '-m', ' '], {}, /must not be blank/, 2],
    ['an invalid count', ['talker', '--max-tokens', 'x'], {}, /whole number/, 2],
  ] as const) {
    it(`explains how to fix ${fault}`, async () => {
      const ran = await hearth.run(['chat', ...args], { env })
      assert.equal(ran.code, exit, ran.err)
      assert.match(ran.err, pattern)
      assert.ok(!ran.err.includes('    at '), ran.err)
    })
  }
})
