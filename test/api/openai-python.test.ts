import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { pythonProcessEnv } from '../../node-runtime/python-env.ts'
import { ChatApi } from '../support/chat-api.ts'
import { openaiPython, requireOpenaiClient } from '../support/openai-python.ts'

const run = promisify(execFile)
const SCRIPT = new URL('../support/openai_client.py', import.meta.url).pathname

describe('the official openai client of Python', () => {
  before(requireOpenaiClient)

  it('lists, chats, streams, and raises its own exceptions', async () => {
    await using chat = await ChatApi.start()
    const endpoint = await chat.warm()

    const args = [SCRIPT, `${chat.api.baseUrl}/v1`, chat.caller.key, endpoint.id]
    const { stdout } = await run(await openaiPython(), args, { env: pythonProcessEnv() })

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
