import assert from 'node:assert/strict'
import { toFailure } from '../../../../activities/node/models/load.ts'
import { ModelUnavailableError } from '../../../../node-runtime/models/unavailable.ts'

describe('a failed load', () => {
  const messageOf = (code: ModelUnavailableError['code'], message: string) =>
    (toFailure(new ModelUnavailableError(code, message)) as Error).message

  it("is reported to Temporal only in the node's own words, without text from the server or the store", () => {
    const messages = [
      messageOf(
        'load_failed',
        'it exited with status 1 before it was ready. Traceback: prompt is "my secret"',
      ),
      messageOf('load_failed', 'GET of an object answered 403: <StringToSign>AWS4 my secret</StringToSign>'),
      messageOf('load_failed', 'its first inference answered 500: my secret'),
      messageOf('backing_off', 'the last load failed (it ended. my secret); next try in 3 s'),
      messageOf('load_failed', `${'x'.repeat(10_000)}\nmy secret`),
    ]

    assert.ok(messages.every((text) => !text.includes('my secret') && text.length <= 200))
    assert.equal(messages[0], 'it exited with status 1 before it was ready')
    assert.equal(
      messageOf('no_capacity', 'needs 9 MB; at most 3 MB can be freed on this node'),
      'needs 9 MB; at most 3 MB can be freed on this node',
    )
  })
})
