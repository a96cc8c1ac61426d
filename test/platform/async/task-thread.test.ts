import assert from 'node:assert/strict'
import { QueueFullError } from '../../../platform/async/fair-semaphore.ts'
import { TaskThread, type TaskThreadOptions, TaskTimeout } from '../../../platform/async/task-thread.ts'
import { until } from '../../support/assertions/until.ts'

/** Doubles numbers, throws at `fail`, loops at `loop`, throws outside a task at `crash`, and exits at `exit`. */
const ENTRY = `
import { parentPort, threadId } from 'node:worker_threads'
parentPort.on('message', (task) => {
  if (task === 'loop') for (;;);
  if (task === 'crash') throw new Error('crashed')
  if (task === 'exit') process.exit(3)
  if (task === 'thread') return parentPort.postMessage({ answer: threadId })
  parentPort.postMessage(task === 'fail' ? { error: 'refused' } : { answer: task * 2 })
})`
const DATA_URL = new URL(`data:text/javascript,${encodeURIComponent(ENTRY)}`)

describe('TaskThread', () => {
  const never = new AbortController().signal
  const open = (options: Partial<TaskThreadOptions> = {}) =>
    new TaskThread<number | string, number>(DATA_URL, {
      timeoutMs: 20_000,
      idleMs: 20_000,
      heapMb: 64,
      maxWaiting: 2,
      ...options,
    })

  it('performs tasks in one thread, and reports their errors', async () => {
    await using thread = open()
    assert.equal(thread.isRunning, false)
    assert.deepEqual(await Promise.all([1, 2, 3].map((task) => thread.run('a', task, never))), [2, 4, 6])
    const id = await thread.run('a', 'thread', never)
    await assert.rejects(thread.run('a', 'fail', never), /^Error: refused$/)
    assert.equal(await thread.run('b', 'thread', never), id)
  })

  it('ends when it is idle, and starts again with the next task', async () => {
    await using thread = open({ idleMs: 20 })
    const id = await thread.run('a', 'thread', never)
    await until(() => !thread.isRunning)
    assert.notEqual(await thread.run('a', 'thread', never), id)
  })

  it('ends on a task that times out, crashes or exits, and then performs the waiting ones', async () => {
    await using thread = open({ timeoutMs: 2_000 })
    const looping = thread.run('a', 'loop', never)
    const next = thread.run('b', 4, never)
    await assert.rejects(looping, TaskTimeout)
    assert.equal(await next, 8)
    await assert.rejects(thread.run('a', 'crash', never), /crashed/)
    await assert.rejects(thread.run('a', 'exit', never), /ended with code 3/)
    assert.equal(await thread.run('a', 5, never), 10)
  })

  it('rejects callers beyond its limit, and lets waiting callers leave', async () => {
    await using thread = open({ timeoutMs: 2_000 })
    const order: string[] = []
    const run = (owner: string, task: number | string, signal = never) =>
      thread.run(owner, task, signal).finally(() => order.push(owner))
    const looping = run('a', 'loop')
    const disconnect = new AbortController()
    const [second, leaver] = [run('a', 1), run('c', 1, disconnect.signal)]
    disconnect.abort(new Error('left'))
    await assert.rejects(leaver, /left/)
    const other = run('b', 1)
    await assert.rejects(run('a', 1), QueueFullError)
    await assert.rejects(looping, TaskTimeout)
    await Promise.all([second, other])
    assert.deepEqual(order, ['c', 'a', 'a', 'a', 'b'])
  })
})
