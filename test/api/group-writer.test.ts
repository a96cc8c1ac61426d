import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { GroupWriter } from '../../api/journal/group-writer.ts'
import { createLogger } from '../../platform/log.ts'

const log = createLogger('test', 'silent')

describe('group writer', () => {
  it('lets rows that nobody waits for gather, and still writes them when it is closed', async () => {
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
