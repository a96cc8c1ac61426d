import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { GroupWriter } from '../../../../api/gateway/journal/group-writer.ts'
import type { ApiError } from '../../../../domain/errors.ts'
import { createLogger } from '../../../../platform/log.ts'

const log = createLogger('test', 'silent')

describe('a group writer', () => {
  it('rejects callers with `unavailable` when the database hangs', async () => {
    const answer = Promise.withResolvers<void>()
    await using writer = new GroupWriter<number>({
      write: () => answer.promise,
      sizeOf: () => 1,
      log,
      patienceMs: 50,
    })

    const results = await Promise.allSettled([writer.add(1), writer.add(2)])

    for (const result of results)
      assert.ok(result.status === 'rejected' && (result.reason as ApiError).code === 'unavailable')
    answer.resolve()
  })

  it('delays rows without a waiting caller, and writes them on close', async () => {
    const groups: (readonly number[])[] = []
    const write = async (items: readonly number[]) => groups.push(items)
    {
      await using writer = new GroupWriter({ write, sizeOf: () => 1, log, gatherMs: 50 })
      const first = writer.add(1)
      await sleep(5)
      await Promise.all([first, writer.add(2)])
      assert.deepEqual(groups, [[1, 2]])
      void writer.add(3)
    }
    assert.deepEqual(groups, [[1, 2], [3]])
  })
})
