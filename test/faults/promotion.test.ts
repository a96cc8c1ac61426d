import assert from 'node:assert/strict'
import { globSync } from 'node:fs'
import { join } from 'node:path'
import { writeTinyGguf } from '../../embedded/demo/tiny-gguf.ts'
import { eventually } from '../support/assertions/until.ts'
import { filesOf, llamaRepo } from '../support/builders/models/hub-repos.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { startHub, type TestHub } from '../support/servers/hub-server.ts'
import {
  dataDirectory,
  type Process,
  processesOn,
  startTestPlatform,
  type TestPlatform,
} from '../support/servers/platform.ts'
import { requireLlamaCpp } from '../support/servers/worlds/llm-world.ts'
import { persistently } from './work.ts'

const WEIGHTS = 'model.gguf'

interface Registration {
  model_config_id: string
  endpoint_id: string
}
interface Task {
  task_id: string
  status: string
  error?: string | null
  status_detail?: { status: string; metadata: { bytes_downloaded?: number } } | null
}
interface Registry {
  models: { model_config_id: string; lifecycle_status: string; lifecycle_note: string | null }[]
}

describe('a hub model on its way to `ready`', function () {
  this.timeout(600_000)
  const stack = new AsyncDisposableStack()
  let hub: TestHub
  let platform: TestPlatform
  let data: string

  before(requireLlamaCpp)
  before(async () => {
    hub = stack.use(await startHub())
    data = stack.use(dataDirectory()).path
    platform = stack.use(await startTestPlatform(data, { env: { HEARTH_HUB_ENDPOINT: hub.url } }))
  })
  after(() => stack.disposeAsync())

  /** Registers a separate repository for each victim, so that there is something to download. */
  async function register(name: string): Promise<Registration> {
    using folder = temporaryFolder()
    await writeTinyGguf(join(folder.path, WEIGHTS), { answer: ['I', ' am', ' for', ` ${name}`, '.'] })
    const repo_id = `acme/${name}`
    hub.put(llamaRepo(repo_id, { files: await filesOf(folder.path) }))
    return platform.api.post<Registration>('/models/hf/register', { repo_id, task_type: 'text-generation' })
  }

  const task = (id: string) => persistently('the task', () => platform.api.get<Task>(`/tasks/${id}`))
  /** The gateway reads the headers of files to learn the model's spaces. */
  const isOfHead = (range?: string) => range?.startsWith('bytes=0-')
  /** Returns the ranges of the later download requests; the first request has no range. */
  const ranges = (from: number) =>
    hub.requests
      .slice(from)
      .flatMap(({ line, headers }) =>
        line.includes('/cdn/') && !isOfHead(headers.range) ? [headers.range] : [],
      )

  async function kill(victim: Process): Promise<void> {
    const pid = platform.kill(victim)
    await eventually(`another ${victim}`, () => {
      const now = platform.pidOf(victim)
      return (now !== undefined && now !== pid) || undefined
    })
  }

  for (const victim of ['node', 'control', 'api'] as const) {
    it(`is fetched once, tested and becomes ready when ${victim} is killed during the download and during the test`, async () => {
      const { model_config_id, endpoint_id } = await register(`model-${victim}`)
      const from = hub.requests.length
      const half = Promise.withResolvers<void>()
      hub.faults.halfway = half.promise
      const input = { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 4 }
      const { task_id } = await platform.api.post<Task>(`/endpoints/${endpoint_id}/infer:async`, { input })
      await eventually('half of the download', async () => {
        const { status_detail } = await task(task_id)
        return Number(status_detail?.metadata.bytes_downloaded) > 0 || undefined
      })

      await kill(victim)
      hub.faults.halfway = undefined
      half.resolve()
      // The model's test waited for the download; now it loads the model and runs an inference.
      await eventually('the end of the download', () => partsOf(data).length === 0 || undefined)
      await kill(victim)

      const ended = await eventually('the end of the task', async () => {
        const now = await task(task_id)
        return ['succeeded', 'failed'].includes(now.status) ? now : undefined
      })
      assert.equal(ended.status, 'succeeded', ended.error ?? '')
      const entry = await eventually('the end of the test', async () => {
        const { models } = await persistently('the registry', () =>
          platform.api.get<Registry>('/models/registry'),
        )
        const found = models.find((one) => one.model_config_id === model_config_id)
        return found?.lifecycle_status === 'candidate' && !found.lifecycle_note ? undefined : found
      })
      assert.deepEqual([entry.lifecycle_status, entry.lifecycle_note], ['ready', null])
      const [first, ...others] = ranges(from)
      assert.equal(first, undefined)
      assert.equal(others.length, victim === 'node' ? 1 : 0)
      for (const range of others) assert.match(range ?? '', /^bytes=[1-9]\d*-$/)
    })
  }

  it('leaves no partial files and no process behind', async () => {
    await platform.stop()

    assert.deepEqual(partsOf(data), [])
    assert.deepEqual(processesOn(data), [])
  })
})

/** Returns the incomplete downloads and models on the node's disk. */
function partsOf(data: string): string[] {
  // Unlike a recursive listing, a glob tolerates folders that are renamed at the same time.
  return globSync('**/weights/**/*.part', { cwd: data })
}
