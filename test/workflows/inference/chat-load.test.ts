import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { WORKFLOW_ID } from '../../../workflows/contract/policy.ts'
import { type InferenceWorld, startInferenceWorld } from '../../support/servers/worlds/inference-world.ts'

const CLIENTS = 1_000

describe('a chat with a cold model', () => {
  let world: InferenceWorld
  before(async () => {
    world = await startInferenceWorld()
  })
  after(() => world[Symbol.asyncDispose]())

  it('is answered after the single load that a thousand clients trigger', async () => {
    await using _control = await world.control()
    await using node = await world.node()
    const endpoint = await world.endpoint({ name: 'popular', load_s: 1 }, { task_type: 'chat' })
    const ask = async () => {
      for (;;) {
        const answer = await world.api.call('POST', '/v1/chat/completions', {
          key: world.key,
          body: { model: endpoint.id, messages: [{ role: 'user', content: 'hi' }] },
        })
        if (answer.status !== 429) return answer
        await sleep(1_000 * Number(answer.headers['retry-after']))
      }
    }

    const answers = await Promise.all(Array.from({ length: CLIENTS }, ask))

    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200])
    const loads = []
    const workflowId = WORKFLOW_ID.load(endpoint.model_key, node.nodeId)
    for await (const { runId } of world.temporal.client.workflow.list({
      query: `WorkflowId = '${workflowId}'`,
    })) {
      loads.push(runId)
    }
    assert.equal(loads.length, 1)
  })
})
