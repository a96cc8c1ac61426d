import assert from 'node:assert/strict'
import { ServedName } from '../../../node-runtime/link/served-name.ts'
import { until } from '../../support/assertions/until.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { startApi } from '../../support/servers/api.ts'
import { ChatApi, eventsOf, FAKE_LLM_SERVER, startChatNode } from '../../support/servers/chat-api.ts'

/** Starts a gateway and a node whose model server, like vLLM, accepts only one model name. */
async function startStubborn(): Promise<ChatApi> {
  const api = await startApi()
  const server = { ...FAKE_LLM_SERVER, servedModel: 'model' }
  return new ChatApi(api, await startChatNode(api, { server }), await api.account())
}

for (const [server, start] of [
  ['that accepts any model name', () => ChatApi.start()],
  ['that accepts only one model name', startStubborn],
] as const) {
  describe(`the model's name in answers from a server ${server}`, () => {
    let chat: ChatApi
    before(async () => {
      chat = await start()
    })
    after(() => chat[Symbol.asyncDispose]())

    const weights = () =>
      server === 'that accepts only one model name' ? { served: 'model' } : { echo: true }
    const warm = () => chat.warm({}, [chat.node], weights())

    it('is the name that the caller used, in full and streamed answers, by name and by id', async () => {
      const endpoint = await warm()

      for (const requestedName of [endpoint.name, endpoint.id]) {
        const whole = await chat.chat(requestedName)
        const streamed = await chat.chat(requestedName, { stream: true, fake: { tokens: 3 } })

        assert.equal(whole.status, 200, whole.text)
        assert.equal(whole.body.model, requestedName)
        const events = eventsOf(streamed.text)
        assert.equal(events.length, 6)
        const names = events.slice(0, -1).map((event) => (JSON.parse(event) as AnyBody).model)
        assert.deepEqual(new Set(names), new Set([requestedName]))
      }
    })

    it("is the endpoint's name in an infer result, both in the answer and in its task", async () => {
      const endpoint = await warm()
      const input = { messages: [{ role: 'user', content: 'hi' }], model: 'whatever' }

      const { status, body } = await chat.api.call('POST', `/api/builder/v1/endpoints/${endpoint.id}/infer`, {
        key: chat.caller.key,
        body: { input },
      })

      assert.equal(status, 200)
      assert.equal((body as AnyBody).result.model, endpoint.name)
      const { result } = await chat.api.database.db
        .selectFrom('task')
        .select('result')
        .where('id', '=', (body as AnyBody).task_id)
        .executeTakeFirstOrThrow()
      assert.equal((JSON.parse(String(result)) as AnyBody).model, endpoint.name)
    })

    it('is left unchanged for a node with an earlier runtime, which receives the same request as before', async () => {
      const endpoint = await warm()
      const { links } = chat.api.services
      const { nodeId, parts } = chat.node
      const own = parts.inventory.version
      const report = async (version: string) => {
        parts.inventory.version = version
        links.disconnect(nodeId, 'to hear of its version')
        await until(() => links.versionOf(nodeId) === version)
        await until(() => links.placement.count(endpoint.model_key).warm === 1)
      }

      await report('0.11.0')
      const { status } = await chat.chat(endpoint.name)
      const { last } = await chat.stats(endpoint)
      await report(own)

      assert.equal(status, 200)
      assert.equal((JSON.parse(last) as AnyBody).model, 'model')
    })
  })
}

describe('ServedName', () => {
  const answered = (requestText: string, answer: string, size: number): string => {
    const name = new ServedName('model')
    name.request(Buffer.from(requestText))
    const bytes = Buffer.from(answer)
    const chunks: Buffer[] = []
    for (let at = 0; at < bytes.length; at += size) chunks.push(name.answer(bytes.subarray(at, at + size)))
    return Buffer.concat([...chunks, name.rest()]).toString()
  }

  it('finds the name wherever an answer is split, and leaves text that quotes it unchanged', () => {
    const text = JSON.stringify('say "model":"model" and "model":"mod')
    const event = (model: string) => `data: {"id":"é","model":${model},"x":${text}}\n\n`
    const answer = event('"model"') + event('"model"')

    for (let size = 1; size <= answer.length; size++) {
      assert.equal(answered('{"model":"a\\"b"}', answer, size), event('"a\\"b"') + event('"a\\"b"'))
    }
  })

  it('holds nothing back at the end of an event', () => {
    const name = new ServedName('model')
    name.request(Buffer.from('{"model":"m"}'))

    assert.equal(
      name.answer(Buffer.from('data: {"model":"model"}\n\n')).toString(),
      'data: {"model":"m"}\n\n',
    )
  })

  it('inserts the served name into a request, and leaves a request without a model unchanged', () => {
    const name = new ServedName('model')

    assert.equal(name.request(Buffer.from('{"n":1, "model" : "m"}')).toString(), '{"n":1, "model" : "model"}')
    assert.equal(name.request(Buffer.from('{"n":1}')).toString(), '{"n":1}')
  })
})
