import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { startDatabase, type TestDatabase } from '../support/database.ts'
import { until } from '../support/node.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const NOWHERE = '127.0.0.1:1'

describe('the control worker', () => {
  let database: TestDatabase
  const started: ChildProcess[] = []
  before(async () => {
    database = await startDatabase()
  })
  after(async () => {
    for (const child of started) child.kill('SIGKILL')
    await database?.[Symbol.asyncDispose]()
  })

  function start(env: NodeJS.ProcessEnv) {
    const child = spawn(process.execPath, ['workers/control.ts'], {
      env: { PATH: process.env.PATH, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    started.push(child)
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output += String(chunk)))
    const exit = once(child, 'exit') as Promise<[number | null]>
    return { child, exit, output: () => output }
  }

  it('waits for PostgreSQL and says so, and ends when it is told to', async () => {
    using folder = temporaryFolder()
    const { child, exit, output } = start({
      DATABASE_URL: 'postgres://nobody:none@127.0.0.1:1/none',
      TEMPORAL_ADDRESS: NOWHERE,
      HEARTH_DATA_DIR: folder.path,
    })

    await until(async () => output().includes('waiting for PostgreSQL'))
    child.kill('SIGTERM')

    assert.deepEqual((await exit)[0], 0)
  })

  it('waits for Temporal and says so, and ends when it is told to', async () => {
    using folder = temporaryFolder()
    const { child, exit, output } = start({
      DATABASE_URL: database.url,
      TEMPORAL_ADDRESS: NOWHERE,
      HEARTH_DATA_DIR: folder.path,
    })

    await until(async () => output().includes('waiting for Temporal'))
    child.kill('SIGTERM')

    assert.deepEqual((await exit)[0], 0)
  })

  it('does not start without a database, and names the setting', async () => {
    const { exit, output } = start({ TEMPORAL_ADDRESS: NOWHERE })

    assert.deepEqual((await exit)[0], 2)
    assert.match(output(), /^DATABASE_URL must be set/)
  })
})
