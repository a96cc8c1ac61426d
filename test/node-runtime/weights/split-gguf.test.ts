import assert from 'node:assert/strict'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { AdminClient } from '../../../cli/admin-client.ts'
import { importModel } from '../../../cli/commands/models.ts'
import { writeTinyGguf } from '../../../embedded/demo/tiny-gguf.ts'
import { splitGguf } from '../../support/builders/models/split-gguf.ts'
import { type AnyBody, OPERATIONS_KEY } from '../../support/servers/api.ts'
import { LlmWorld, requireLlamaCpp } from '../../support/servers/worlds/llm-world.ts'

describe('a split GGUF', function () {
  this.timeout(600_000)
  let world: LlmWorld
  before(requireLlamaCpp)
  before(async () => {
    world = await LlmWorld.start()
  })
  after(() => world?.[Symbol.asyncDispose]())

  it('is loaded completely through its first part', async () => {
    const folder = world.pathOf('in-parts')
    await mkdir(join(folder, 'Q4_K_M'), { recursive: true })
    const whole = world.pathOf('whole.gguf')
    await writeTinyGguf(whole, { answer: ['Parts', ' are', ' fine.'] })
    await splitGguf(whole, { count: 3, stem: join(folder, 'Q4_K_M', 'tiny') })
    await rm(whole)
    const client = new AdminClient(world.api.baseUrl, OPERATIONS_KEY)
    const { accountId } = world.caller
    const model = await importModel(client, { name: 'in-parts', path: folder, task: 'chat', accountId })

    await world.load(model)
    const answer = await world.chat(model.name, {
      messages: [{ role: 'user', content: 'Are you whole?' }],
      max_tokens: 16,
    })

    assert.equal(answer.status, 200)
    assert.equal((answer.body as AnyBody).choices[0].message.content, 'Parts are fine.')
  })
})
