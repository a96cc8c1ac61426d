import assert from 'node:assert/strict'
import { backoff, retryUntilAborted } from '../../../platform/async/retry.ts'

const AT_ONCE = { first: 0, longest: 0 }
const NEVER = new AbortController().signal

describe('retries', () => {
  it('wait twice as long after each failure, up to a limit', () => {
    const pauses = [0, 1, 2, 3, 4, 5_000].map((failures) => backoff(failures, { first: 100, longest: 1_000 }))

    assert.deepEqual(pauses, [100, 200, 400, 800, 1_000, 1_000])
  })

  it('continue until the work succeeds, whatever it throws', async () => {
    const seen: unknown[] = []
    const failures = [new TypeError('first'), 'second']
    const work = async () => {
      if (failures.length > 0) throw failures.shift()
      return 'done'
    }

    const result = await retryUntilAborted(work, {
      ...AT_ONCE,
      signal: NEVER,
      onFailure: (err, failuresBefore) => seen.push(String(err), failuresBefore),
    })

    assert.equal(result, 'done')
    assert.deepEqual(seen, ['TypeError: first', 0, 'second', 1])
  })

  it('end with the error that the caller throws in response to a failure', async () => {
    const work = () => Promise.reject(new Error('not yet'))
    const onFailure = () => {
      throw new Error('never')
    }

    await assert.rejects(retryUntilAborted(work, { ...AT_ONCE, signal: NEVER, onFailure }), /never/)
  })

  it('end during a pause when the signal aborts', async () => {
    const stop = new AbortController()
    const work = () => Promise.reject(new Error('not yet'))

    const over = retryUntilAborted(work, {
      first: 60_000,
      longest: 60_000,
      signal: stop.signal,
      onFailure: () => setImmediate(() => stop.abort()),
    })

    await assert.rejects(over, { name: 'AbortError' })
  })

  it('return the result of the work even if the signal has aborted in the meantime', async () => {
    const stop = new AbortController()
    const work = async () => {
      stop.abort()
      return 'a connection'
    }

    const result = await retryUntilAborted(work, { ...AT_ONCE, signal: stop.signal, onFailure: () => {} })

    assert.equal(result, 'a connection')
  })
})
