import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { LoadDeadline } from '../../../node-runtime/models/load-deadline.ts'
import { until } from '../../support/assertions/until.ts'

const STALL_TIMEOUT_MS = 400
/** Reads continuously and retains nothing, like a server that loads a large model from a slow disk. */
const READER = `
const { openSync, readSync } = require('node:fs')
const [file, buffer] = [openSync('/dev/zero'), Buffer.alloc(4 << 20)]
setInterval(() => readSync(file, buffer), 20)`

/** Returns a deadline that watches a process running this code. */
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

describe('LoadDeadline', () => {
  it('does not fire while the server reads, however long that takes (3.4)', async () => {
    using load = loading(READER)

    await sleep(15 * STALL_TIMEOUT_MS)

    assert.equal(load.signal.aborted, false, reason(load))
  }).timeout(20_000)

  it('fires when the server neither writes output nor reads', async () => {
    using load = loading('setInterval(() => {}, 1000)')

    await until(() => load.signal.aborted)

    assert.match(reason(load), /it made no progress for 0.4 s/)
  })

  it('fires late for a server that only writes output', async () => {
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
