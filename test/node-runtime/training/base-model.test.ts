import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AttemptError } from '../../../node-runtime/training/attempt-error.ts'
import { fetchBase } from '../../../node-runtime/training/base-model.ts'
import type { NodeModelSpec } from '../../../schemas/nodes/node.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { addModel, startNode, type TestNode } from '../../support/servers/nodes/node.ts'

const signal = new AbortController().signal

describe("a run's base model", () => {
  let api: TestApi
  let node: TestNode
  before(async () => {
    api = await startApi()
    node = await startNode(api)
  })
  after(async () => {
    await node?.[Symbol.asyncDispose]()
    await api?.[Symbol.asyncDispose]()
  })

  const options = (name: string) => ({ dir: join(node.dir, 'work', name), signal, tell: () => {} })
  /** Makes the URLs behave like expired ones: the gateway rejects their signatures. */
  const outlived = (spec: NodeModelSpec): NodeModelSpec => ({
    ...spec,
    files: spec.files.map((file) => ({ ...file, url: `${file.url}00` })),
  })

  it("is fetched from new URLs when its version's URLs have expired", async () => {
    const { control } = node.parts
    const key = await addModel(api, { name: 'base' })
    let specReads = 0
    const modelSpec: typeof control.modelSpec = async (...args) => {
      const spec = await control.modelSpec(...args)
      return ++specReads === 1 ? outlived(spec) : spec
    }

    const folder = await fetchBase(
      { ...node.parts, control: { modelSpec } },
      { type: 'version', model_key: key },
      options('version'),
    )

    assert.equal(specReads, 2)
    assert.equal(JSON.parse(await readFile(join(folder, 'weights.json'), 'utf8')).name, 'base')
  })

  it("is fetched in another attempt, with new URLs, when its claim's URLs have expired", async () => {
    const key = await addModel(api, { name: 'claimed' })
    const { files } = outlived(await node.parts.control.modelSpec(key))

    const fetching = fetchBase(node.parts, { type: 'files', files, cache_key: key }, options('files'))

    await assert.rejects(fetching, (err: unknown) => {
      assert.ok(err instanceof AttemptError)
      assert.match(err.message, /responded to GET with status 403$/)
      return err.isRetryable
    })
  })
})
