import assert from 'node:assert/strict'
import type { ImportedModel } from '../../../../schemas/model-import.ts'
import type { AnyBody } from '../../../support/servers/api.ts'
import { LlmWorld, requireLlamaCpp } from '../../../support/servers/worlds/llm-world.ts'

const OWN = 131_072
/** One token is a letter in these models. */
const LONG = 'word '.repeat(2_000)

describe('the context of a GGUF', function () {
  this.timeout(300_000)
  let world: LlmWorld
  before(requireLlamaCpp)
  afterEach(() => world?.[Symbol.asyncDispose]())

  async function chat(
    { name }: ImportedModel,
    content: string,
    options: object = { max_tokens: 1 },
  ): Promise<{ status: number; body: AnyBody }> {
    const { status, body } = await world.chat(name, { messages: [{ role: 'user', content }], ...options })
    return { status, body: body as AnyBody }
  }
  const reportOf = ({ model_key }: ImportedModel) =>
    world.node.parts.models.report().find((model) => model.model_key === model_key)
  const listed = async ({ name }: ImportedModel) => {
    const headers = { authorization: `Bearer ${world.caller.key}` }
    const { body } = await world.api.call('GET', `/v1/models/${name}`, { headers })
    return (body as { max_model_len?: number }).max_model_len
  }

  it("is the model's own where it fits, and the model is listed with it", async () => {
    world = await LlmWorld.start()
    const model = await world.importGguf('own', { context: 32_768 })
    assert.equal(await listed(model), undefined)
    await world.load(model)

    const { status, body } = await chat(model, LONG)

    assert.equal(status, 200, JSON.stringify(body))
    assert.ok(body.usage.prompt_tokens > 9_000, JSON.stringify(body.usage))
    assert.equal(await listed(model), 32_768)
    assert.equal(reportOf(model)?.max_concurrency, 4)
  })

  it('is one shorter context when the node lacks the memory for a full one', async () => {
    world = await LlmWorld.start({ memoryMb: 340 })
    const model = await world.importGguf('short', { context: OWN })
    await world.load(model)
    const length = (await listed(model)) ?? 0
    assert.ok(length > 8_192 && length < OWN, String(length))

    const { status, body } = await chat(model, 'word '.repeat(OWN / 4))

    assert.equal(status, 400)
    assert.ok(
      body.error.message.includes(
        `together may take at most ${length}: the node has no memory for more of the model's own context of ${OWN}`,
      ),
      body.error.message,
    )
    assert.equal(reportOf(model)?.max_concurrency, 1)
  })

  it("is the endpoint's max_model_len, for which the node needs the memory", async () => {
    world = await LlmWorld.start({ memoryMb: 340 })
    const { key } = world.caller
    const model = await world.importGguf('set', { context: OWN })
    const set = async (max_model_len: number) => {
      const path = `/api/builder/v1/endpoints/${model.endpoint_id}`
      const { status, body } = await world.api.call('PATCH', path, {
        key,
        body: { serving: { max_model_len } },
      })
      assert.equal(status, 200, JSON.stringify(body))
    }

    await set(100_000)
    await assert.rejects(world.node.parts.models.load(model.model_key), /MB/)
    await set(1_000)
    await world.load(model)
    const { status, body } = await chat(model, LONG)

    assert.equal(status, 400)
    assert.match(body.error.message, /at most 1000: this is the endpoint's setting max_model_len/)
    assert.equal(await listed(model), 1_000)
    assert.equal(reportOf(model)?.max_concurrency, 4)
  })

  it('ends an answer that fills it, instead of dropping the beginning of the chat', async () => {
    world = await LlmWorld.start()
    const model = await world.importGguf('full', { context: 512 })
    await world.load(model)
    const schema = { type: 'array', items: { type: 'integer' }, minItems: 1_000 }

    const { status, body } = await chat(model, 'Count.', {
      response_format: { type: 'json_schema', json_schema: { name: 'long', schema } },
    })

    assert.equal(status, 200, JSON.stringify(body))
    assert.equal(body.choices[0].finish_reason, 'length')
    assert.equal(body.usage.total_tokens, 511)
  })
})
