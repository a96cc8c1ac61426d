import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { HeadBucketCommand, S3Client } from '@aws-sdk/client-s3'
import { runProgram } from '../../platform/processes/run-program.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { startDatabase, type TestDatabase } from '../support/servers/database.ts'
import { startS3, type TestS3 } from '../support/servers/s3.ts'
import { startTemporal, type TestTemporal } from '../support/servers/temporal.ts'
import { skipBecause } from '../support/skip.ts'

const NAMESPACE = 'prepared'
const BUCKET = 'prepared'

describe('scripts/setup.ts', () => {
  const stack = new AsyncDisposableStack()
  let database: TestDatabase
  let temporal: TestTemporal
  let s3: TestS3
  before(async function () {
    this.timeout(120_000)
    const started = await startS3()
    if ('missing' in started) return skipBecause(this, started.missing)
    s3 = stack.use(started)
    database = stack.use(await startDatabase({ isEmpty: true }))
    temporal = stack.use(await startTemporal({ extraArgs: ['--log-level', 'error'] }))
  })
  after(() => stack.disposeAsync())

  const setUp = (...folders: string[]) =>
    runProgram(process.execPath, ['scripts/setup.ts', ...folders], {
      env: {
        PATH: process.env['PATH'],
        DATABASE_URL: database.url,
        TEMPORAL_ADDRESS: temporal.address,
        TEMPORAL_NAMESPACE: NAMESPACE,
        S3_BUCKET: BUCKET,
        S3_ENDPOINT: s3.options.endpoint,
        S3_ACCESS_KEY_ID: s3.options.accessKeyId,
        S3_SECRET_ACCESS_KEY: s3.options.secretAccessKey,
      },
    })
  const accounts = () => database.db.selectFrom('account').select('name').execute()

  it('prepares Temporal, the bucket and the database, and prints no key', async function () {
    this.timeout(60_000)
    const { stdout } = await setUp()

    const { connection } = temporal
    const described = await connection.workflowService.describeNamespace({ namespace: NAMESPACE })
    assert.equal(described.namespaceInfo?.name, NAMESPACE)
    const { accessKeyId, secretAccessKey, ...options } = s3.options
    const client = new S3Client({ ...options, credentials: { accessKeyId, secretAccessKey } })
    await client.send(new HeadBucketCommand({ Bucket: BUCKET }))
    client.destroy()
    assert.deepEqual(await accounts(), [])
    assert.equal(stdout, '')
  })

  it('changes nothing the next time, except that folders get a first account and a join token', async function () {
    this.timeout(60_000)
    using folder = temporaryFolder()
    const { stdout } = await setUp(folder.path, join(folder.path, 'node'))

    const written = readFileSync(join(folder.path, 'account.json'), 'utf8')
    assert.deepEqual(JSON.parse(stdout), JSON.parse(written))
    assert.ok(existsSync(join(folder.path, 'node', 'token')))
    assert.deepEqual(await accounts(), [{ name: 'first' }])
  })
})
