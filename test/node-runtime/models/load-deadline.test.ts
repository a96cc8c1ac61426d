import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { LoadDeadline } from '../../../node-runtime/models/load-deadline.ts'
import { until } from '../../support/assertions/until.ts'

const STALL_TIMEOUT_MS = 400
/** Reads on and on, and holds nothing of it: a disk that is slow, and a model that is large. */
const READER = `
const { openSync, readSync } = require('node:fs')
const [file, buffer] = [openSync('/dev/zero'), Buffer.alloc(4 << 20)]
setInterval(() => readSync(file, buffer), 20)`

/** Returns a deadline that watches a process which runs this code. */
function loading(code: string): Disposable & { signal: AbortSignal; heard(): void } {
  const child = spawn(process.execPath, ['-e', code], { stdio: 'ignore' })
  const deadline = new LoadDeadline({ stallMs: STALL_TIMEOUT_MS })
  deadline.watch(async () => (child.pid === undefined ? [] : [child.pid]))
  return {
    signal: deadline.signal,
    heard: () => deadline.heard(),
    [Symbol.dispose]: () => {
      deadline[Symbol.dispose]()
      child.kill('SIGKILL')
    },
  }
}

const reason = ({ signal }: { signal: AbortSignal }): string => String(signal.reason)

describe('the end of a load', () => {
  it('does not come while the server takes something in, however long that lasts (3.4)', async () => {
    using load = loading(READER)

    await sleep(15 * STALL_TIMEOUT_MS)

    assert.equal(load.signal.aborted, false, reason(load))
  }).timeout(20_000)

  it('comes when nothing is said and nothing taken', async () => {
    using load = loading('setInterval(() => {}, 1000)')

    await until(() => load.signal.aborted)

    assert.match(reason(load), /it made no progress for 0.4 s/)
  })

  it('comes late where a server only talks', async () => {
    using load = loading('setInterval(() => {}, 1000)')
    using stack = new DisposableStack()
    stack.adopt(
      setInterval(() => load.heard(), 20),
      clearInterval,
    )
    const began = performance.now()

    await until(() => load.signal.aborted, 20_000)

    assert.match(reason(load), /it printed lines but loaded nothing for 4 s/)
    assert.ok(performance.now() - began >= 4_000)
  }).timeout(30_000)
})
