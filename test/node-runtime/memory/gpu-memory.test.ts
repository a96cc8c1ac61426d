import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { memoryMeter } from '../../../node-runtime/memory/meter.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { addModel, startNode, type TestNode, until } from '../../support/servers/nodes/node.ts'

/** Longer than the interval between two checks of a node. */
const LOOKS_MS = 1_000

/** A one-GPU `nvidia-smi` that prints the content of a file, and fails if the file does not exist. */
class Driver implements Disposable {
  readonly #folder = temporaryFolder()
  readonly #path = process.env.PATH
  readonly #apps = join(this.#folder.path, 'apps.csv')

  constructor() {
    const script = `#!/bin/sh
case "$1" in
  --query-gpu*) echo 'NVIDIA H200, 143771' ;;
  *) cat '${this.#apps}' || exit 9 ;;
esac`
    writeFileSync(join(this.#folder.path, 'nvidia-smi'), script, { mode: 0o755 })
    this.lists('')
    process.env.PATH = `${this.#folder.path}:${this.#path}`
  }

  lists(rows: string): void {
    writeFileSync(this.#apps, rows)
  }

  failsToAnswer(): void {
    rmSync(this.#apps)
  }

  [Symbol.dispose](): void {
    process.env.PATH = this.#path
    this.#folder[Symbol.dispose]()
  }
}

describe('GPU memory', function () {
  this.timeout(120_000)
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api?.[Symbol.asyncDispose]())

  const heldBy = ({ parts }: TestNode, key: string) => parts.memory.heldBy(key)
  const reportOf = ({ parts }: TestNode, key: string) =>
    parts.models.report().find(({ model_key }) => model_key === key)
  /** The process id of the model's server; the CUDA probe may be running as well. */
  const pidOf = async ({ parts }: TestNode) =>
    (await parts.driver.running.find(({ name }) => name.startsWith('model-'))?.pid()) ?? 0
  /** Starts a node with a loaded model, which the driver lists with 300 MB. */
  async function loaded(driver: Driver, key: string): Promise<TestNode> {
    const node = await startNode(api, { memoryMb: 1_000, vramMb: 200 })
    await node.parts.models.load(key)
    driver.lists(`${await pidOf(node)}, 300\n`)
    return node
  }

  it('is passed to the next model only after the driver no longer lists the evicted one', async () => {
    using driver = new Driver()
    const [old, fresh] = [await addModel(api, { name: 'old' }), await addModel(api, { name: 'fresh' })]
    await using node = await loaded(driver, old)
    const loading = node.parts.models.memoryAllocator.reserve(fresh, 900)
    await until(() => node.parts.driver.running.length === 0)
    await sleep(LOOKS_MS)

    assert.deepEqual([reportOf(node, old)?.state, heldBy(node, old)], ['evicted', 200])
    driver.lists('1, 300\n')
    await loading

    assert.equal(heldBy(node, old), 0)
  })

  it('stays reserved for a model whose server died until the driver no longer lists it', async () => {
    using driver = new Driver()
    const key = await addModel(api, { name: 'dies' })
    await using node = await loaded(driver, key)

    process.kill(await pidOf(node), 'SIGKILL')
    await until(() => reportOf(node, key)?.state === 'evicted')
    await sleep(LOOKS_MS)

    assert.match(reportOf(node, key)?.error ?? '', /exited unexpectedly (on signal|with status) \d+\. /)
    assert.equal(heldBy(node, key), 200)
    driver.lists('')
    await until(() => heldBy(node, key) === 0)
  })

  it('stays reserved for a model that failed to load until the driver no longer lists it', async () => {
    using driver = new Driver()
    const key = await addModel(api, { name: 'stuck', load_s: 60 })
    await using node = await startNode(api, { memoryMb: 1_000, vramMb: 200, startTimeoutS: 3 })
    const loading = assert.rejects(node.parts.models.load(key), /made no progress/)
    await until(async () => (await pidOf(node)) > 0)
    driver.lists(`${await pidOf(node)}, 300\n`)
    await loading
    await sleep(LOOKS_MS)

    assert.equal(heldBy(node, key), 200)
    driver.lists('')
    await until(() => heldBy(node, key) === 0)
  })

  it('is not considered free while the driver does not answer', async () => {
    using driver = new Driver()
    const key = await addModel(api, { name: 'unknown' })
    await using node = await loaded(driver, key)
    driver.failsToAnswer()

    process.kill(await pidOf(node), 'SIGKILL')
    await until(() => reportOf(node, key)?.state === 'evicted')
    await sleep(LOOKS_MS)

    assert.equal(heldBy(node, key), 200)
    driver.lists('')
    await until(() => heldBy(node, key) === 0)
  })

  it('is neither measured nor freed while the driver lists a process without its memory use', async () => {
    using driver = new Driver()
    const meter = memoryMeter({ hardware: 'gpu', gpus: [] })
    const profile = { vram_mb: 200 } as Parameters<typeof meter.measureMb>[1]

    driver.lists('77, [N/A]\n77, 300\n')
    assert.deepEqual([await meter.measureMb([77], profile), await meter.isBack([77])], [0, undefined])
    assert.equal(await meter.isBack([78]), true)

    driver.failsToAnswer()
    assert.deepEqual([await meter.measureMb([77], profile), await meter.isBack([77])], [0, undefined])
  })

  it('is not awaited for a model on the CPU', async () => {
    using driver = new Driver()
    const key = await addModel(api, { name: 'plain' })
    await using node = await startNode(api, { memoryMb: 1_000 })
    await node.parts.models.load(key)
    driver.failsToAnswer()

    process.kill(await pidOf(node), 'SIGKILL')
    await until(() => reportOf(node, key)?.state === 'evicted')
    await sleep(LOOKS_MS)
    await node.parts.models.load(key)

    assert.equal(node.parts.models.startState(key), 'resident')
  })
})
