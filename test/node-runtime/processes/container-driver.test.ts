import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { LoadDeadline } from '../../../node-runtime/models/load-deadline.ts'
import { ModelServer } from '../../../node-runtime/models/server.ts'
import { ContainerDriver } from '../../../node-runtime/processes/container-driver.ts'
import type { ContainerSpec } from '../../../node-runtime/processes/container-options.ts'
import { ProcessDriver } from '../../../node-runtime/processes/process-driver.ts'
import type { RuntimeProfile } from '../../../schemas/nodes/runtime-profile.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { type Engine, requireEngine, TEST_IMAGE } from '../../support/servers/nodes/container-engine.ts'

/** A one-line model server: it is healthy at once, and answers inference with the files of its model. */
const SERVER = `
const answer = (request, response) => response.end(request.url === '/health' ? 'ok'
  : require('fs').readFileSync('/model/weights.txt'))
require('http').createServer(answer).listen(process.argv[1])`

describe('the container driver', function () {
  let engine: Engine
  let driver: ContainerDriver
  const state = temporaryFolder()

  before(async function () {
    engine = await requireEngine(this)
    driver = (await connect())!
  })
  after(async () => {
    await driver?.stopAll({ graceMs: 0 })
    await engine?.[Symbol.asyncDispose]()
    state[Symbol.dispose]()
  })

  const connect = () => ContainerDriver.connect({ socketPath: engine.socketPath, stateDir: state.path })
  const spec = (script: string, more: Partial<ContainerSpec> = {}): ContainerSpec => ({
    name: `test-${Math.random().toString(36).slice(2)}`,
    image: TEST_IMAGE,
    command: ['/bin/sh', '-c', script],
    env: {},
    mounts: [],
    memoryMb: 128,
    cpus: 1,
    gpus: [],
    network: false,
    ...more,
  })
  /** Runs a script to completion; returns its output and its exit. */
  const outcome = async (script: string, more?: Partial<ContainerSpec>) => {
    const container = await driver.start(spec(script, more))
    const output = text(container.stdout)
    const { code } = await container.exited
    return { code, output: (await output).trim() }
  }

  it('rejects an image with a mutable name', async () => {
    for (const image of ['busybox', 'busybox:latest', 'registry:5000/tool', 'tool@sha256:abc']) {
      await assert.rejects(
        driver.start(spec('true', { image })),
        /must be referenced by a version or a digest/,
      )
    }
  })

  it("reports which image is missing and why it can't be pulled", async () => {
    const image = 'localhost/nowhere:1.2.3'

    await assert.rejects(driver.start(spec('true', { image })), /localhost\/nowhere:1\.2\.3 is not on this/)
  })

  it("passes on a container's output and exit status", async () => {
    assert.deepEqual(await outcome('echo hello; exit 7'), { code: 7, output: 'hello' })
  })

  it('denies a container network access, capabilities, new privileges, and writes to its root', async () => {
    const { output: said } = await outcome(
      'cat /proc/self/status; ls /sys/class/net; touch /x 2>&1; touch /tmp/x && echo tmp-is-writable',
    )

    assert.match(said, /CapEff:\s+0000000000000000/)
    assert.match(said, /CapBnd:\s+0000000000000000/)
    assert.match(said, /NoNewPrivs:\s+1/)
    assert.match(said, /Read-only file system/)
    assert.match(said, /tmp-is-writable/)
    assert.doesNotMatch(said, /^eth/m)
  })

  it('limits memory, CPU and processes, and never restarts', async () => {
    const container = await driver.start(spec('sleep 60'))

    const { HostConfig } = await engine.docker.getContainer(container.id).inspect()

    assert.equal(HostConfig.Memory, 128 * 1024 * 1024)
    assert.equal(HostConfig.MemorySwap, 128 * 1024 * 1024)
    assert.equal(HostConfig.NanoCpus, 1e9)
    assert.ok(HostConfig.PidsLimit! > 0)
    assert.ok(['', 'no'].includes(HostConfig.RestartPolicy!.Name))
    await container.stop({ graceMs: 0 })
  })

  it('mounts only the folders it was given', async () => {
    using folder = temporaryFolder()
    writeFileSync(join(folder.path, 'weights.txt'), 'weights')

    const mounts = [{ source: folder.path, target: '/model', readOnly: true }]
    const { output: said } = await outcome('cat /model/weights.txt; touch /model/x 2>&1', { mounts })

    assert.match(said, /^weights/)
    assert.match(said, /Read-only file system/)
  })

  it('stops an unresponsive container without leftovers', async () => {
    const container = await driver.start(spec('trap "" TERM; while true; do sleep 1; done'))
    const pid = await container.pid()
    assert.ok(pid)

    await container.stop({ graceMs: 300 })

    assert.throws(() => process.kill(pid, 0), /ESRCH/)
    await assert.rejects(engine.docker.getContainer(container.id).inspect())
    assert.equal(await container.pid(), undefined)
  })

  it('removes containers of an earlier run of the node, but not those of another node', async () => {
    using elsewhere = temporaryFolder()
    const other = (await ContainerDriver.connect({
      socketPath: engine.socketPath,
      stateDir: elsewhere.path,
    }))!
    const [orphan, kept] = [await driver.start(spec('sleep 60')), await other.start(spec('sleep 60'))]

    const reaped = await (await connect())!.reap()

    assert.equal(reaped, 1)
    await orphan.exited
    assert.ok(await kept.pid())
    await kept.stop({ graceMs: 0 })
  })

  it('serves a model over a socket in a folder, without a network', async () => {
    using folder = temporaryFolder()
    writeFileSync(join(folder.path, 'weights.txt'), '{"weights":true}')
    const drivers = {
      process: new ProcessDriver({ stateDir: folder.path, python: async () => 'python3' }),
      container: driver,
    }
    using deadline = new LoadDeadline({ stallMs: 20_000 })
    const launch = {
      name: 'model-contained',
      profile,
      python: undefined,
      modelDir: folder.path,
      ramMb: 256,
    }

    const server = await ModelServer.start(drivers, launch, {
      deadline,
      stopping: new AbortController().signal,
    })

    await server.probe({})
    assert.ok(await server.isHealthy(1_000))
    await server.stop()
    assert.equal(driver.running.length, 0)
  })
})

const profile: RuntimeProfile = {
  profile_id: 'contained',
  display_name: 'Contained',
  description: 'For tests.',
  driver: 'container',
  python_env: null,
  image: TEST_IMAGE,
  command: ['/bin/node', '-e', SERVER, '{socket}'],
  env: {},
  ready: 'health',
  health_path: '/health',
  infer_path: '/infer',
  task_types: ['echo'],
  requires_gpu: false,
  memory_mb: 128,
  vram_mb: 0,
  threads: 1,
  max_concurrency: 2,
  start_timeout_s: 20,
  stop_grace_s: 0.5,
}
