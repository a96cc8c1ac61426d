import assert from 'node:assert/strict'
import { TaskProbe } from '../../support/assertions/task-probe.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { type InferenceWorld, startInferenceWorld } from '../../support/servers/worlds/inference-world.ts'

describe('a model with unusable weights', () => {
  let world: InferenceWorld
  const on = new TaskProbe(() => world)
  before(async () => {
    world = await startInferenceWorld()
  })
  after(() => world?.[Symbol.asyncDispose]())

  it('fails every task that is waiting for it with the message, and is rejected from then on', async () => {
    await using _control = await world.control()
    const endpoint = await world.endpoint({ name: 'clay', unusable: true })
    const waiting = [
      await on.queue(endpoint, { instances: [1] }),
      await on.queue(endpoint, { instances: [2] }),
    ]
    await using _node = await world.node()

    for (const id of waiting) {
      const { error } = await on.ended(id, 'failed')
      assert.equal(error, 'its weights cannot be used: they are of clay')
    }

    await until(async () => (await world.infer(endpoint, { input: { instances: [3] } })).status !== 200)
    const { status, headers, body } = await world.infer(endpoint, { input: { instances: [3] } })
    assert.equal(status, 422)
    assert.equal(headers['retry-after'], undefined)
    assert.equal(body.detail[0].type, 'model_unusable')
    assert.match(body.error.message, /of clay/)
  })

  it("is not marked unusable on a report from another account's node", async () => {
    await using _control = await world.control()
    const endpoint = await world.endpoint({ name: 'doubted', unusable: true })
    const { accountId } = await world.api.account()
    await using node = await world.node({ accountId, sharing: 'dedicated' })

    await assert.rejects(node.parts.models.load(endpoint.model_key))

    const version = await world.api.database.db
      .selectFrom('model_version')
      .select('unusable')
      .where('model_key', '=', endpoint.model_key)
      .executeTakeFirstOrThrow()
    assert.equal(version.unusable, null)
  })
})
