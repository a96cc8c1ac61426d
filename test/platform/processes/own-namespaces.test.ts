import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { ownNamespaces } from '../../../platform/processes/own-namespaces.ts'
import { identify } from '../../../platform/processes/process-identity.ts'
import { treeOf } from '../../../platform/processes/process-tree.ts'
import { until } from '../../support/assertions/until.ts'
import { skipBecause } from '../../support/skip.ts'

describe('a process in its own namespaces', () => {
  let apart: readonly string[]
  before(async function () {
    apart = await ownNamespaces()
    if (apart.length === 0) skipBecause(this, 'this machine has no unshare, or its kernel forbids it')
  })

  function start(script: string): ChildProcess {
    const [program, ...rest] = [...apart, process.execPath, '-e', script]
    return spawn(program, rest, { stdio: ['ignore', 'pipe', 'ignore'] })
  }
  async function outputOf(script: string): Promise<string> {
    const child = start(script)
    assert.ok(child.stdout)
    return text(child.stdout)
  }
  const trying = (what: string) =>
    `try { ${what}; console.log('done') } catch (err) { console.log(err.code) }`

  it("can't read the environment of another process of its user", async () => {
    const path = `/proc/${process.pid}/environ`

    const output = await outputOf(trying(`require('node:fs').readFileSync('${path}')`))

    assert.match(output, /^(EACCES|EPERM|ENOENT)$/m)
  })

  it("can't signal other processes", async () => {
    assert.match(await outputOf(trying(`process.kill(${process.pid}, 0)`)), /^ESRCH$/m)
  })

  it('has no network', async () => {
    const server = createServer((socket) => socket.end()).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const script = `require('node:net').connect(${port}, '127.0.0.1')
      .on('connect', () => { console.log('connected'); process.exit() })
      .on('error', (err) => console.log(err.code))`

    const output = await outputOf(script)
    server.close()

    assert.match(output, /^E[A-Z]+$/m)
  })

  it('ends when its parent is killed', async () => {
    const child = start('setInterval(() => {}, 1000)')
    assert.ok(child.pid !== undefined)
    const { pid } = child
    await until(async () => (await treeOf(pid)).length === 2)
    const [, inner = 0] = await treeOf(pid)

    child.kill('SIGKILL')

    await until(() => !identify(inner))
  })
})
