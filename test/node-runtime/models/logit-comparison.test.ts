import assert from 'node:assert/strict'
import { compareLogits, type ComparisonTools } from '../../../node-runtime/models/logit-comparison.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { addModel, startNode } from '../../support/servers/nodes/node.ts'

describe('the logit comparison', () => {
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api?.[Symbol.asyncDispose]())

  it('reports a missing environment on a node, and uses no memory there', async () => {
    await using node = await startNode(api, { memoryMb: 300, ballastMb: 70 })
    const { models, memory } = node.parts
    const key = await addModel(api, { name: 'served' })
    await models.load(key)
    const free = memory.freeMb
    const tools: ComparisonTools = {
      ...node.parts,
      pythonOf: () => Promise.reject(new Error('there is no Python here')),
    }

    const { signal } = new AbortController()
    await assert.rejects(compareLogits(tools, key, { ingredients: [], memoryMb: 250, signal }), {
      name: 'ComparisonError',
      message: 'its logits could not be compared: there is no Python here',
      isFinal: false,
    })

    assert.equal(models.startState(key), 'resident')
    assert.equal(memory.freeMb, free)
  })
})
