import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { access, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import pRetry from 'p-retry'
import { goInstall } from '../../../embedded/processes/programs.ts'
import { readConfig } from '../../../platform/config.ts'
import { freePort } from '../../../platform/free-ports.ts'
import type { S3ObjectStoreOptions } from '../../../platform/object-store/s3.ts'

const VERSION = '1.8.0'
const BUCKET = 'hearth-test'

/** A running S3 server with one empty bucket. */
export interface TestS3 extends AsyncDisposable {
  options: S3ObjectStoreOptions
}

/** Starts a real S3 server (versitygw over a directory), or returns why this machine has none. */
export async function startS3(): Promise<TestS3 | { missing: string }> {
  const binary = await findServer()
  if (typeof binary !== 'string') return binary

  const directory = await mkdtemp(join(tmpdir(), 'hearth-s3-'))
  const [data, sidecar] = [join(directory, 'data'), join(directory, 'sidecar')]
  await Promise.all([mkdir(data), mkdir(sidecar)])
  const port = await freePort()
  const options: S3ObjectStoreOptions = {
    bucket: BUCKET,
    region: 'us-east-1',
    endpoint: `http://127.0.0.1:${port}`,
    accessKeyId: 'hearth',
    secretAccessKey: 'hearth-secret',
    forcePathStyle: true,
  }
  const server = spawn(
    binary,
    // Store metadata in a sidecar folder, because a temporary directory may lack extended attributes.
    ['--quiet', '--port', `127.0.0.1:${port}`, 'posix', '--sidecar', sidecar, data],
    {
      stdio: 'ignore',
      env: { ROOT_ACCESS_KEY_ID: options.accessKeyId, ROOT_SECRET_ACCESS_KEY: options.secretAccessKey },
    },
  )
  const stop = async () => {
    await end(server)
    await rm(directory, { recursive: true, force: true })
  }
  try {
    await createBucket(options)
  } catch (err) {
    await stop()
    throw err
  }
  return { options, [Symbol.asyncDispose]: stop }
}

/** Finds the server that the test runner has installed, or builds it if the test runs alone. */
async function findServer(): Promise<string | { missing: string }> {
  const { HEARTH_TEST_VERSITYGW: path, HEARTH_TEST_VERSITYGW_MISSING: missing } = process.env
  if (path) return path
  if (missing) return { missing: `no S3 server: ${missing}` }
  const target = join(readConfig().HEARTH_CACHE_DIR, `versitygw-${VERSION}`, 'versitygw')
  try {
    await access(target)
  } catch {
    try {
      await goInstall('github.com/versity/versitygw/cmd/versitygw', `v${VERSION}`, target, () => {})
    } catch (err) {
      return { missing: `no S3 server: ${String(err).split('\n')[0]}` }
    }
  }
  return target
}

async function createBucket(options: S3ObjectStoreOptions): Promise<void> {
  const { endpoint, region, accessKeyId, secretAccessKey } = options
  const client = new S3Client({
    ...(endpoint && { endpoint }),
    region,
    forcePathStyle: true,
    credentials: { accessKeyId, secretAccessKey },
    maxAttempts: 1,
  })
  const create = () => client.send(new CreateBucketCommand({ Bucket: options.bucket }))
  await pRetry(create, { retries: Infinity, minTimeout: 50, factor: 1, maxRetryTime: 15_000 })
  client.destroy()
}

async function end(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return
  server.kill('SIGKILL')
  await once(server, 'exit')
}
