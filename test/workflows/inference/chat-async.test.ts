import assert from 'node:assert/strict'
import type { EndpointRow } from '../../../db/tables/models.ts'
import { TaskProbe } from '../../support/assertions/task-probe.ts'
import { FAKE_LLM_SERVER, type FakeStats } from '../../support/servers/chat-api.ts'
import { until } from '../../support/servers/nodes/node.ts'
import {
  type InferenceWorld,
  startInferenceWorld,
  type WorldNode,
} from '../../support/servers/worlds/inference-world.ts'

const PRICE = 500
const messages = [{ role: 'user', content: 'héllo' }]

describe('infer:async with a language model', () => {
  let world: InferenceWorld
  const on = new TaskProbe(() => world)
  before(async () => {
    world = await startInferenceWorld()
  })
  after(() => world?.[Symbol.asyncDispose]())

  const startNode = () => world.node({ server: FAKE_LLM_SERVER })
  /** Returns the statistics of the model server on a node. */
  async function seenBy({ parts }: WorldNode, { model_key }: EndpointRow): Promise<FakeStats> {
    using use = parts.models.use(model_key)
    assert.ok(use)
    const { body } = await use.server.pool.request({ method: 'GET', path: '/stats' })
    return (await body.json()) as FakeStats
  }
  async function ask(endpoint: EndpointRow, body: object): Promise<string> {
    const path = `/api/builder/v1/endpoints/${endpoint.id}/infer:async`
    const answer = await world.api.call('POST', path, { key: world.key, body })
    assert.equal(answer.status, 202, answer.text)
    return answer.body.task_id
  }

  for (const [state, wanted] of [
    ['cold', 'cold'],
    ['warm', 'resident'],
  ] as const) {
    it(`returns the completion of a ${state} model as the task's result, within the limits of the request`, async () => {
      await using _control = await world.control()
      await using node = await startNode()
      const overrides = { task_type: 'chat', price_micro: PRICE }
      const endpoint = await world.endpoint({ name: `${state}-llm` }, overrides)
      if (state === 'warm') {
        await node.parts.models.load(endpoint.model_key)
        await node.queues.settled()
        await until(() => world.api.services.links.placement.count(endpoint.model_key).warm === 1)
      }

      const id = await ask(endpoint, {
        input: { messages, max_tokens: 900, temperature: 1, seed: 7, stream: true, fake: { tokens: 4 } },
        max_tokens: 5,
        temperature: 0,
      })
      const task = await on.ended(id)

      assert.equal(task.model_state, wanted)
      assert.equal(task.result.object, 'chat.completion')
      assert.equal(task.result.choices[0].message.role, 'assistant')
      assert.equal(task.result.usage.completion_tokens, 4)
      const { last, requests } = await seenBy(node, endpoint)
      assert.deepEqual(JSON.parse(last), {
        messages,
        max_tokens: 5,
        temperature: 0,
        seed: 7,
        stream: false,
        fake: { tokens: 4 },
        model: 'model',
      })
      assert.equal(requests, 2, 'one request for the warm-up and one for the task')
      assert.equal(await on.closed(id), 'COMPLETED')
      assert.deepEqual(await on.bookings(id), ['capture', 'hold', 'payout'])
      assert.deepEqual(await on.events(id), ['inference.task.succeeded'])
    })
  }
})
