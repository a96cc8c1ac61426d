import assert from 'node:assert/strict'
import { request } from 'undici'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import { OUTPUT_TYPE } from '../../../../platform/model-output.ts'
import { FRAME } from '../../../../schemas/nodes/link.ts'
import { until } from '../../../support/assertions/until.ts'
import { buildEndpoint } from '../../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../../support/servers/api.ts'
import { type RawLink, rawNode } from '../../../support/servers/nodes/raw-node.ts'

const PAGE = Buffer.from('<script>steal()</script>')

describe('a node that answers speech requests with hostile content', () => {
  const stack = new AsyncDisposableStack()
  let api: TestApi
  let key: string
  let endpoint: EndpointRow
  let link: RawLink
  before(async () => {
    api = stack.use(await startApi())
    const caller = await api.account()
    key = caller.key
    endpoint = await buildEndpoint(api.database.db, caller.accountId, {
      runtime_profile: 'tiny',
      task_type: 'text-to-speech',
    })
    const node = await rawNode(api.database.db)
    link = stack.use(await node.link(api.baseUrl, { models: [endpoint.model_key] }))
    await until(() => api.services.links.placement.count(endpoint.model_key).warm === 1)
  })
  after(() => stack.disposeAsync())

  /** Requests speech, which the node answers with these bytes as a file of this type. */
  async function speak(content_type: unknown, metadata: object = {}) {
    link.onFrame = ({ type, stream }) => {
      if (type !== FRAME.request) return
      const file = { filename: 'audio.mp3', content_type, modality: 'audio', size_bytes: PAGE.length }
      link.send(
        FRAME.end,
        stream,
        { status: 200, content_type: OUTPUT_TYPE },
        Buffer.concat([
          Buffer.from(`${JSON.stringify({ event: 'file', ...file })}\n`),
          PAGE,
          Buffer.from(`${JSON.stringify({ event: 'result', metadata })}\n`),
        ]),
      )
    }
    const { statusCode, headers, body } = await request(`${api.baseUrl}/v1/audio/speech`, {
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
      body: JSON.stringify({ model: endpoint.id, input: 'hello', voice: '0' }),
    })
    return { status: statusCode, headers, text: await body.text() }
  }

  it('has its answer rejected unless the content type is a documented audio type', async () => {
    for (const type of [
      'text/html',
      'audio/mpeg, text/html',
      'audio/mpeg\r\nset-cookie: a=b',
      'image/svg+xml',
      'AUDIO/x',
      null,
      undefined,
      ['audio/mpeg'],
    ]) {
      const { status, headers, text } = await speak(type)

      assert.equal(status, 500, `${String(type)} ${text}`)
      assert.match(String(headers['content-type']), /^application\/json/)
      assert.match(text, /the model returned no audio/)
      assert.ok(!text.includes('steal'))
    }
    for (const type of ['audio/mpeg', 'audio/ogg', 'audio/aac', 'audio/flac', 'audio/wav', 'audio/pcm']) {
      const { status, headers } = await speak(type)

      assert.deepEqual([status, headers['content-type']], [200, type])
      assert.equal(headers['x-content-type-options'], 'nosniff')
    }
  })

  it('has its speaker name returned only if it fits into a header', async () => {
    for (const voice of ['a\r\nset-cookie: a=b', '声', 'a'.repeat(10_000), '', 7]) {
      const { status, headers } = await speak('audio/mpeg', { voice })

      assert.equal(status, 200)
      assert.equal(headers['x-voice-used'], undefined)
      assert.equal(headers['set-cookie'], undefined)
    }
    assert.equal((await speak('audio/mpeg', { voice: 'alloy' })).headers['x-voice-used'], 'alloy')
  })
})
