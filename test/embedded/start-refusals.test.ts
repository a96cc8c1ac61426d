import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { until } from '../support/assertions/until.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'

interface End {
  code: number | null
  stdout: string
  stderr: string
}

/** Runs the `npm start` program without npm until it exits. */
async function start(env: NodeJS.ProcessEnv, main = 'embedded/start.ts'): Promise<End> {
  using folder = temporaryFolder()
  const child = spawn(process.execPath, [main], {
    env: { ...process.env, HEARTH_PORT: '0', HEARTH_DATA_DIR: join(folder.path, 'data'), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const end = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) child[name].on('data', (text) => (end[name] += text))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, ...end }
}

const KEYS = Buffer.alloc(32, 7).toString('base64')
const NOWHERE = 'postgres://me:secret@127.0.0.1:1/none'

describe('npm start with settings that do not fit the machine', function () {
  this.timeout(60_000)

  /** Asserts that the program printed one line and started nothing. */
  const assertRefusal = ({ code, stdout, stderr }: End, line: RegExp): void => {
    assert.match(stderr, line)
    assert.match(stderr, /^[^\n]+\n$/)
    assert.notEqual(code, 0)
    assert.doesNotMatch(stdout, /PostgreSQL on port/)
  }

  it('reports in one line that it cannot create its folder', async () => {
    const end = await start({ HEARTH_DATA_DIR: join(import.meta.filename, 'data') })

    assertRefusal(end, /^HEARTH_DATA_DIR cannot be .*: a file exists at this path\.$/m)
    assert.equal(end.code, 1)
  })

  it('reports in one line that it cannot listen on its host', async () => {
    assertRefusal(
      await start({ HEARTH_HOST: '192.0.2.1' }),
      /^HEARTH_HOST must be an address of this machine/,
    )
  })

  it('reports in one line that its port is in use', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    const { port } = other.address() as AddressInfo
    const end = await start({ HEARTH_PORT: String(port) })
    other.close()

    assertRefusal(end, new RegExp(`^HEARTH_PORT: port ${port} on 127.0.0.1 is taken by another program`))
  })

  for (const [name, main] of [
    ['a migration', 'scripts/migrate.ts'],
    ['a gateway', 'api/main.ts'],
  ] as const) {
    it(`reports in one line, without the password, that ${name} cannot reach the database`, async () => {
      const env = { DATABASE_URL: NOWHERE, TEMPORAL_ADDRESS: 'x:1', HEARTH_ENCRYPTION_KEYS: KEYS }
      const { code, stdout, stderr } = await start(env, main)
      const output = stdout + stderr

      assert.match(output, /DATABASE_URL cannot be used: connect ECONNREFUSED 127.0.0.1:1\./)
      assert.equal(output.trim().split('\n').length, 1)
      assert.doesNotMatch(output, /secret|node:internal/)
      assert.equal(code, 2)
    })
  }

  it('reports in one line that a gateway cannot listen', async () => {
    const env = { DATABASE_URL: NOWHERE, TEMPORAL_ADDRESS: 'x:1', HEARTH_HOST: '192.0.2.1' }
    const { code, stdout } = await start(env, 'api/main.ts')

    assert.match(stdout, /"msg":"HEARTH_HOST must be an address of this machine[^\n]*\n$/)
    assert.equal(code, 2)
  })

  it('exits at once on SIGTERM while waiting for an unresponsive server', async () => {
    const silent = createServer(() => {}).listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const { port } = silent.address() as AddressInfo
    using folder = temporaryFolder()
    const child = spawn(process.execPath, ['embedded/start.ts'], {
      env: {
        ...process.env,
        HEARTH_PORT: '0',
        HEARTH_DATA_DIR: join(folder.path, 'data'),
        DATABASE_URL: NOWHERE,
        TEMPORAL_ADDRESS: `127.0.0.1:${port}`,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    child.stdout.on('data', (text) => (output += text))
    await until(() => output.includes('waiting for Temporal'), 30_000)
    const stoppedAt = performance.now()
    child.kill('SIGTERM')
    const [code] = (await once(child, 'exit')) as [number | null]
    silent.close()

    assert.equal(code, 0)
    const ms = performance.now() - stoppedAt
    assert.ok(ms < 10_000, `it took ${ms} ms, and the wait itself takes 30 s`)
  })
})
