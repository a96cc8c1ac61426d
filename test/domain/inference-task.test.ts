import assert from 'node:assert/strict'
import { canMoveTask, isTerminalTask, taskStatusesBefore, taskStatusOf } from '../../domain/inference-task.ts'
import { TaskStatus } from '../../schemas/inference-task.ts'

const STATUSES = (TaskStatus as unknown as { enum: TaskStatus[] }).enum

describe('inference task', () => {
  it('ends in succeeded or failed and nowhere else (contract 3.4)', () => {
    assert.deepEqual(STATUSES.filter(isTerminalTask), ['succeeded', 'failed'])
    for (const from of STATUSES.filter(isTerminalTask)) {
      assert.ok(STATUSES.every((to) => !canMoveTask(from, to)))
    }
  })

  it('can fail from every open status, and be placed again from every one', () => {
    const open = STATUSES.filter((status) => !isTerminalTask(status))

    assert.deepEqual(taskStatusesBefore('failed'), open)
    assert.deepEqual(taskStatusesBefore('queued'), open)
  })

  it('succeeds only once somebody has claimed it', () => {
    assert.ok(!canMoveTask('queued', 'succeeded'))
    assert.ok(!canMoveTask('assigned', 'succeeded'))
    assert.ok(canMoveTask('claimed', 'succeeded'))
  })

  it('reads the steps a node tells as statuses, and nothing else', () => {
    assert.equal(taskStatusOf('warming_up'), 'loading_model')
    assert.equal(taskStatusOf('downloading_model'), 'downloading_model')
    assert.equal(taskStatusOf('succeeded'), undefined)
    assert.equal(taskStatusOf('dancing'), undefined)
  })
})
