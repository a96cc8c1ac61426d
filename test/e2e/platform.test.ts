import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { after, before, describe, it } from 'mocha'
import { request } from 'undici'
import { infer, inferAsync, inferMany, register, train, uploadTable } from '../../embedded/demo/steps.ts'
import { freePort } from '../../platform/free-ports.ts'
import { eventually } from '../support/assertions/until.ts'
import { regressionTable } from '../support/builders/tables.ts'
import {
  dataDirectory,
  processesOn,
  startSupervisor,
  startTestPlatform,
} from '../support/servers/platform.ts'
import type { TestPlatform } from '../support/servers/platform.ts'
import { type RecordingProxy, recordingProxy } from '../support/servers/recording-proxy.ts'

const LINUX = process.platform === 'linux'

describe('the embedded platform', function () {
  this.timeout(600_000)
  let data: ReturnType<typeof dataDirectory>
  let platform: TestPlatform
  let endpoint: Awaited<ReturnType<typeof register>>
  let proxy: RecordingProxy

  before(async () => {
    data = dataDirectory()
    proxy = await recordingProxy()
    // A corporate proxy with exceptions only in upper case. Local traffic must never go through it.
    const env = { http_proxy: proxy.url, https_proxy: proxy.url, no_proxy: '', NO_PROXY: '.corp.invalid' }
    platform = await startTestPlatform(data.path, { env })
  })
  after(async () => {
    await platform?.stop()
    await proxy?.[Symbol.asyncDispose]()
    data?.[Symbol.dispose]()
  })

  it('writes its URL and its keys to the ready file', async () => {
    const { ready } = platform

    assert.match(ready.base_url, /^http:\/\/127\.0\.0\.1:\d+$/)
    assert.match(ready.temporal_ui_url ?? '', /^http:\/\/127\.0\.0\.1:\d+$/)
    assert.equal(ready.pid, platform.supervisor.pid)
    assert.deepEqual(await platform.h.datasets.list().all(), [])
  })

  it('stores its secrets readable only by their owner', () => {
    assert.equal(statSync(join(data.path, 'secrets.json')).mode & 0o777, 0o600)
    assert.equal(statSync(join(data.path, 'ready.json')).mode & 0o777, 0o600)
  })

  it('sends none of its internal traffic through the proxy in the environment', () => {
    assert.deepEqual(
      proxy.targets.filter((host) => /^(localhost|127\.|\[::1\])/.test(host)),
      [],
    )
  })

  it('trains a model on an uploaded table and answers cold, warm and asynchronously', async () => {
    const { h } = platform
    const { dataset_id: datasetId, num_samples: rows } = await uploadTable(h, regressionTable(500))
    const lines: string[] = []

    const { jobId, run } = await train(h, datasetId, (line) => lines.push(line))
    endpoint = await register(h, jobId)
    const cold = await infer(h, endpoint)
    const times = await inferMany(h, endpoint, 20)
    const later = await inferAsync(h, endpoint)

    assert.equal(rows, 500)
    assert.equal(lines.filter((line) => line.startsWith('epoch')).length, 40)
    assert.ok(Number(run.metrics?.['r2']) > 0.5, `r2 ${String(run.metrics?.['r2'])}`)
    assert.equal(cold.model_state, 'cold')
    assert.equal(times.length, 20)
    assert.equal(later.status, 'succeeded')
  })

  it('refuses to start a second supervisor on the same data, with a one-sentence error', async () => {
    const second = startSupervisor(data.path, [])
    const text: string[] = []
    second.stderr?.on('data', (chunk) => text.push(String(chunk)))
    const [code] = await once(second, 'exit')

    assert.equal(code, 2)
    assert.match(text.join(''), /^Another Hearth \(pid \d+\) is running on [^\n]+\n$/)
  })

  it('stops within ten seconds without leaving processes behind, and resumes running work at the next start', async () => {
    const run = await longRun(platform)
    await eventually('the run', async () => ((await status(platform, run)) === 'running' ? true : undefined))
    const before = platform.ready

    const ms = await platform.stop()

    assert.ok(ms < 15_000, `${ms} ms`)
    if (LINUX) assert.deepEqual(processesOn(data.path), [])
    assert.equal(existsSync(join(data.path, 'ready.json')), false)

    platform = await startTestPlatform(data.path)
    assert.equal(platform.ready.api_key, before.api_key)
    assert.equal(platform.ready.account_id, before.account_id)
    assert.equal((await infer(platform.h, endpoint)).status, 'succeeded')
    const ended = await eventually('the end of the run', () => endedStatus(platform, run), 120_000)
    assert.equal(ended, 'completed')
  })

  it('gives its node no credentials to bypass the gate or to act as the platform', function () {
    if (!LINUX) this.skip()
    const environment = readFileSync(`/proc/${platform.pidOf('node')}/environ`, 'utf8').split('\0')
    const names = environment.map((line) => line.split('=')[0] ?? '')

    assert.deepEqual(
      names.filter((name) => /^(TEMPORAL_|DATABASE_URL|S3_|HEARTH_(GATE_|OPERATIONS|ENCRYPTION))/.test(name)),
      [],
    )
  })

  it('does not restart a removed node, and joins a new one at the next start', async () => {
    const admin = (method: 'GET' | 'DELETE', path: string) =>
      request(`${platform.ready.base_url}/api/v1/admin/nodes${path}`, {
        method,
        headers: { 'x-api-key': platform.ready.operations_key },
      })
    const nodes = async () =>
      ((await (await admin('GET', '')).body.json()) as { nodes: { node_id: string }[] }).nodes
    const [node] = await nodes()
    assert.ok(node)

    await (await admin('DELETE', `/${node.node_id}`)).body.dump()

    await eventually(
      'its end',
      () => platform.output().includes('node has stopped and will not be restarted') || undefined,
    )
    assert.match(platform.output(), /This node has been removed from the pool\./)
    await sleep(1_000)
    assert.equal(platform.pidOf('node'), undefined)
    await platform.stop()
    platform = await startTestPlatform(data.path)
    const [again] = await nodes()
    assert.notEqual(again?.node_id, node.node_id)
    assert.equal((await infer(platform.h, endpoint)).status, 'succeeded')
  })

  it('leaves no process running when the supervisor is killed, and restarts on its data', async () => {
    platform.supervisor.kill('SIGKILL')
    await once(platform.supervisor, 'exit')

    if (LINUX) {
      const deadline = Date.now() + 60_000
      while (processesOn(data.path).length > 0 && Date.now() < deadline) await sleep(100)
      assert.deepEqual(processesOn(data.path), [])
    }
    platform = await startTestPlatform(data.path)
    assert.equal((await infer(platform.h, endpoint)).status, 'succeeded')
  })
})

describe('npm start', function () {
  it('starts over with --fresh, with a new account and no old data', async () => {
    using data = dataDirectory()
    const first = await startTestPlatform(data.path)
    await uploadTable(first.h, regressionTable(10))
    await first.stop()

    // The platform uses the configured address, with its own namespace.
    const port = await freePort()
    const env = {
      HEARTH_HOST: '0.0.0.0',
      HEARTH_PORT: String(port),
      HEARTH_BASE_URL: `http://localhost:${port}`,
      TEMPORAL_NAMESPACE: 'another',
    }
    await using second = await startTestPlatform(data.path, { args: ['--fresh'], env })

    assert.equal(second.ready.base_url, env.HEARTH_BASE_URL)
    assert.notEqual(second.ready.account_id, first.ready.account_id)
    assert.notEqual(second.ready.api_key, first.ready.api_key)
    assert.deepEqual(await second.h.datasets.list().all(), [])
    // The row count is known once the workflow has read the file.
    assert.equal((await uploadTable(second.h, regressionTable(10))).num_samples, 10)
  })

  it('stops when npm receives SIGTERM, although npm does not signal its scripts', async () => {
    using data = dataDirectory()
    const readyFile = join(data.path, 'ready.json')
    const env = { ...process.env, HEARTH_DATA_DIR: data.path, HEARTH_PORT: '0' }
    const npm = spawn('npm', ['start', '--', '--ready-file', readyFile], { env, stdio: 'ignore' })
    await eventually('the ready file', () => existsSync(readyFile) || undefined)

    npm.kill('SIGTERM')

    await eventually('the removal of the ready file', () => (existsSync(readyFile) ? undefined : true))
    if (LINUX)
      await eventually('the end of every process', () => processesOn(data.path).length === 0 || undefined)
  })

  it('rejects unknown options and invalid settings with one sentence each', async () => {
    using data = dataDirectory()
    const wrongOption = await runToEnd(['--frehs'], { HEARTH_DATA_DIR: data.path })
    const wrongSetting = await runToEnd([], { HEARTH_DATA_DIR: data.path, HEARTH_PORT: 'eighty' })

    const noDatabase = await runToEnd([], {
      HEARTH_DATA_DIR: data.path,
      HEARTH_PORT: '0',
      DATABASE_URL: 'postgres://me:secret@127.0.0.1:1/none',
    })

    assert.deepEqual([wrongOption.code, wrongSetting.code, noDatabase.code], [2, 2, 1])
    assert.match(noDatabase.stderr, /^DATABASE_URL cannot be used: connect ECONNREFUSED[^\n]*\n$/)
    assert.doesNotMatch(noDatabase.stderr, /secret/)
    assert.match(wrongOption.stderr, /^[^\n]*--frehs[^\n]*\n$/)
    assert.match(wrongSetting.stderr, /^HEARTH_PORT[^\n]*eighty[^\n]*\n$/)
  })
})

async function runToEnd(args: string[], env: NodeJS.ProcessEnv): Promise<{ code: number; stderr: string }> {
  const command = ['scripts/bootstrap.mjs', 'embedded/start.ts', ...args]
  const child = spawn(process.execPath, command, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let stderr = ''
  child.stderr.on('data', (chunk) => (stderr += String(chunk)))
  const [code] = (await once(child, 'close')) as [number]
  return { code, stderr }
}

/** Starts a run of about ten seconds with checkpoints. */
async function longRun({ h }: TestPlatform): Promise<string> {
  const { dataset_id: datasetId } = await uploadTable(h, regressionTable(4000))
  const { job_id: jobId } = await h.runs.create({
    job_name: 'long',
    model_config_id: 'tabular-regression',
    dataset_id: datasetId,
    hyperparameters: { epochs: 1500, learning_rate: 0.01, num_leaves: 127, checkpoint_every_epochs: 100 },
  })
  return jobId
}

async function status({ h }: TestPlatform, run: string): Promise<string> {
  return (await h.runs.get(run)).status
}

async function endedStatus(platform: TestPlatform, run: string): Promise<string | undefined> {
  const now = await status(platform, run)
  return now === 'pending' || now === 'running' ? undefined : now
}
