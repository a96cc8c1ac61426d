import assert from 'node:assert/strict'
import type { LookupFunction } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Agent, request } from 'undici'
import { type Hearth, hearth } from '../../client/index.ts'
import { infer, inferAsync, register, train, uploadTable } from '../../embedded/demo/steps.ts'
import { eventually } from '../support/assertions/until.ts'
import { type Deployment, requireDeployment } from './deployment.ts'

const BASE_URL = 'http://127.0.0.1:8420'
const SERVICES = ['api', 'worker', 'gate', 'node', 's3', 'temporal', 'postgres'] as const

/** Resolves every name under .localhost to this machine, as RFC 6761 specifies. */
const lookup: LookupFunction = (_, __, done) => done(null, [{ address: '127.0.0.1', family: 4 }])

describe('docker-compose.yml', () => {
  let deployment: Deployment
  let h: Hearth
  let endpoint: Awaited<ReturnType<typeof register>>
  let jobId: string
  before(async function () {
    deployment = await requireDeployment(this)
  })
  after(async function () {
    this.timeout(120_000)
    await deployment?.[Symbol.asyncDispose]()
  })

  const up = () => deployment.compose('up', '--no-build', '--pull', 'never', '--wait', '--detach')
  const table = () => {
    const rows = Array.from(
      { length: 200 },
      (_, i) => `${40 + (i % 97)},${1 + (i % 5)},${(40 + (i % 97)) * 3 + (1 + (i % 5)) * 20}`,
    )
    return Buffer.from(`size,rooms,target\n${rows.join('\n')}\n`)
  }
  const answers = async () => {
    const { status } = await infer(h, endpoint)
    return status === 'succeeded' ? true : undefined
  }

  it('starts on empty volumes', async function () {
    this.timeout(10 * 60_000)
    await up()
    const log = await deployment.compose('logs', '--no-log-prefix', 'setup')
    const { api_key: key } = JSON.parse(log.slice(log.indexOf('{'), log.lastIndexOf('}') + 1)) as {
      api_key: string
    }
    h = hearth({ baseUrl: BASE_URL, apiKey: key })
    assert.equal((await h.platform.health()).status, 'ok')
  })

  it('trains a model on uploaded data for an external client and serves it cold, warm and asynchronously', async function () {
    this.timeout(10 * 60_000)
    const { dataset_id: datasetId } = await uploadTable(h, table())
    ;({ jobId } = await train(h, datasetId, () => {}))
    endpoint = await register(h, jobId)

    assert.equal((await infer(h, endpoint)).status, 'succeeded')
    assert.equal((await infer(h, endpoint)).status, 'succeeded')
    assert.equal((await inferAsync(h, endpoint)).status, 'succeeded')
  })

  it('returns signed URLs that work outside the network', async () => {
    const { download_urls: urls } = await h.runs.downloadUrls(jobId)
    const [first] = urls
    assert.ok(first)
    const dispatcher = new Agent({ connect: { lookup } })
    try {
      const { statusCode, body } = await request(first.download_url, { dispatcher })
      assert.deepEqual([statusCode, (await body.arrayBuffer()).byteLength], [200, first.size_bytes])
    } finally {
      await dispatcher.close()
    }
  })

  it('isolates the node from PostgreSQL, Temporal and secrets', async () => {
    for (const [host, port] of [
      ['postgres', 5432],
      ['temporal', 7233],
    ]) {
      const program = `require('node:net').connect({host:'${host}',port:${port},timeout:2000}).once('connect',()=>process.exit(0)).once('timeout',()=>process.exit(3)).once('error',()=>process.exit(3))`
      const { code } = await deployment.inside('node', 'node', '-e', program)
      assert.equal(code, 3, `the node reaches ${host}`)
    }
    const { output } = await deployment.inside('node', 'sh', '-c', 'env; ls -A /hearth')
    assert.doesNotMatch(
      output,
      /DATABASE_URL|HEARTH_ENCRYPTION_KEYS|HEARTH_OPERATIONS_KEY|S3_SECRET|POSTGRES|^\.env$/m,
    )
  })

  it('gives no container more privileges than it needs', async () => {
    for (const service of ['api', 'worker', 'gate', 'node', 'temporal', 's3']) {
      const { output } = await deployment.inside(service, 'cat', '/proc/1/status')
      assert.match(output, /^CapEff:\s*0+$/m, `${service} has capabilities`)
      assert.match(output, /^NoNewPrivs:\s*1$/m, `${service} may gain privileges`)
      const { code } = await deployment.inside(service, 'sh', '-c', 'touch /probe')
      assert.notEqual(code, 0, `${service} may write to its root`)
    }
  })

  it('continues with its data after a stop', async function () {
    this.timeout(10 * 60_000)
    await deployment.compose('stop', '--timeout', '15')
    await up()

    assert.equal((await h.runs.get(jobId)).status, 'completed')
    await eventually('an answer', () => answers().catch(() => undefined))
  })

  for (const service of SERVICES) {
    it(`continues after ${service} has crashed`, async function () {
      this.timeout(5 * 60_000)
      const pending = await h.endpoints.inferAsync(endpoint.endpoint_id, {
        input: endpoint.example_input,
      })
      await deployment.crash(service)

      await eventually('an answer', () => answers().catch(() => undefined), 240_000)
      await eventually('the task that was under way', async () => {
        const { status } = await h.tasks.get(pending.task_id)
        await sleep(200)
        return status === 'succeeded' ? true : undefined
      })
    })
  }
})
