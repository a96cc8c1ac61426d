import assert from 'node:assert/strict'
import { InferenceApi } from '../../support/servers/inference-api.ts'
import { addModel } from '../../support/servers/nodes/node.ts'

describe('the steps of a task (3.4)', () => {
  it('start with `preparing`: the node has claimed the task but has not started to fetch or load the model', async () => {
    await using on = await InferenceApi.start()
    const { db } = on.api.database
    const endpoint = await on.endpointOver(await addModel(on.api, { name: 'not yet' }))
    const { task_id: id } = (await on.infer(endpoint.id, { input: { instances: [1] }, sync: false })).body
    const step = async () => {
      const { status, status_detail } = (await on.task(id)).body
      return [status, status_detail?.status]
    }
    const move = (status: 'assigned' | 'claimed') =>
      db.updateTable('task').set({ status, node_id: on.node.nodeId }).where('id', '=', id).execute()

    assert.deepEqual(await step(), ['queued', undefined])
    await move('assigned')
    assert.deepEqual(await step(), ['assigned', undefined])
    await move('claimed')
    assert.deepEqual(await step(), ['preparing', 'preparing'])
  })
})
