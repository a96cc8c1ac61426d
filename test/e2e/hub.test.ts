import assert from 'node:assert/strict'
import { filesOf, llamaRepo } from '../support/builders/models/hub-repos.ts'
import { makeTinyLlm } from '../support/builders/models/tiny-llm.ts'
import { requireSpecialist, tinySpecialist } from '../support/builders/models/tiny-specialist.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { startHub, type TestHub } from '../support/servers/hub-server.ts'
import { until } from '../support/servers/nodes/node.ts'
import { dataDirectory, startTestPlatform, type TestPlatform } from '../support/servers/platform.ts'

const BUILDER = '/api/builder/v1'

describe('a hub model', function () {
  this.timeout(600_000)
  const stack = new AsyncDisposableStack()
  let hub: TestHub
  let platform: TestPlatform
  before(requireSpecialist)
  before(async () => {
    const folder = stack.use(temporaryFolder())
    await makeTinyLlm(folder.path)
    const moderator = await filesOf(await tinySpecialist({ kind: 'moderation', architecture: 'distilbert' }))
    hub = stack.use(
      await startHub(
        llamaRepo('acme/chatty', { files: await filesOf(folder.path) }),
        llamaRepo('acme/moderator', { files: moderator, pipelineTag: 'text-classification' }),
      ),
    )
    const directory = stack.use(dataDirectory())
    platform = stack.use(
      await startTestPlatform(directory.path, { env: { HEARTH_HUB_ENDPOINT: hub.url, HEARTH_PORT: '0' } }),
    )
  })
  after(() => stack.disposeAsync())

  async function call(method: string, path: string, body?: object) {
    const answer = await fetch(platform.ready.base_url + path, {
      method,
      headers: {
        'content-type': 'application/json',
        'x-api-key': platform.ready.api_key,
        authorization: `Bearer ${platform.ready.api_key}`,
      },
      ...(body && { body: JSON.stringify(body) }),
    })
    // oxlint-disable-next-line typescript/no-explicit-any -- tests look into bodies of every shape
    return { status: answer.status, body: (await answer.json()) as any }
  }

  const registry = async (modelId: string) =>
    (await call('GET', `${BUILDER}/models/registry`)).body.models.find(
      (one: { model_config_id: string }) => one.model_config_id === modelId,
    )

  it('is registered in one call, downloaded by its first request, tested, and then ready to chat', async () => {
    const entry = await call('GET', `${BUILDER}/models/hf/acme%2Fchatty/info`)
    assert.equal(entry.body.compatibility.status, 'compatible', JSON.stringify(entry.body))
    const order = { repo_id: 'acme/chatty', task_type: 'text-generation' }
    const registered = await call('POST', `${BUILDER}/models/hf/register`, order)
    assert.equal(registered.status, 201, JSON.stringify(registered.body))
    assert.equal(hub.downloads('model.safetensors'), 0)

    const { test_request, model_config_id, model_name } = registered.body
    const path = new URL(test_request.url).pathname
    const inference = await call('POST', path, { ...test_request.body, sync_timeout_s: 120 })
    assert.equal(inference.body.status, 'succeeded', JSON.stringify(inference.body))
    assert.equal(hub.downloads('model.safetensors'), 1)

    await until(async () => (await registry(model_config_id)).lifecycle_status === 'ready')
    const chat = await call('POST', '/v1/chat/completions', {
      model: model_name,
      messages: [{ role: 'user', content: 'Hello' }],
      max_tokens: 4,
    })
    assert.equal(chat.status, 200, JSON.stringify(chat.body))
    assert.equal(chat.body.choices.length, 1)
  })

  it('is converted for moderation and answers as its task type requires, including in its test', async () => {
    const order = { repo_id: 'acme/moderator', task_type: 'moderation' }
    const registered = await call('POST', `${BUILDER}/models/hf/register`, order)
    assert.equal(registered.status, 201, JSON.stringify(registered.body))
    const { test_request, model_config_id } = registered.body

    const path = new URL(test_request.url).pathname
    const inference = await call('POST', path, { ...test_request.body, sync_timeout_s: 120 })

    assert.equal(inference.body.status, 'succeeded', JSON.stringify(inference.body))
    assert.deepEqual(Object.keys(inference.body.result.categories), ['hate', 'threat', 'spam'])
    await until(async () => (await registry(model_config_id)).lifecycle_status === 'ready')
  })
})
