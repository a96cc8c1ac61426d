import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { ChatApi } from '../support/chat-api.ts'

const run = promisify(execFile)
const SCRIPT = new URL('../support/openai_client.py', import.meta.url).pathname

describe('the official openai client of Python', () => {
  it('lists, chats, streams, and raises its own exceptions', async function () {
    const hasClient = await run('python3', ['-c', 'import openai']).catch(() => undefined)
    // `pip install openai` for the python3 on PATH lets it run.
    if (!hasClient) return this.skip()
    await using chat = await ChatApi.start()
    const endpoint = await chat.warm()

    const { stdout } = await run('python3', [SCRIPT, `${chat.api.baseUrl}/v1`, chat.caller.key, endpoint.id])

    assert.deepEqual(JSON.parse(stdout), {
      models: [endpoint.id],
      tokens: 4,
      finish: 'stop',
      chunks: 7,
      errors: [
        ['AuthenticationError', 401],
        ['NotFoundError', 404],
        ['UnprocessableEntityError', 422],
        ['BadRequestError', 400],
        ['InternalServerError', 503],
      ],
    })
  })
})
