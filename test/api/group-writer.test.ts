import assert from 'node:assert/strict'
import { GroupWriter } from '../../api/journal/group-writer.ts'
import type { ApiError } from '../../domain/errors.ts'
import { createLogger } from '../../platform/log.ts'

const log = createLogger('test', 'silent')

describe('a group writer', () => {
  it('lets callers go when the database hangs', async () => {
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
})
