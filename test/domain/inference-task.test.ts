import assert from 'node:assert/strict'
import { canMoveTask, isTerminalTask, taskStatusesBefore, taskStatusOf } from '../../domain/inference-task.ts'
import { TaskStatus } from '../../schemas/inference-task.ts'

const STATUSES = (TaskStatus as unknown as { enum: TaskStatus[] }).enum

describe('inference task', () => {
  it('ends only in succeeded or failed (contract 3.4)', () => {
    assert.deepEqual(STATUSES.filter(isTerminalTask), ['succeeded', 'failed'])
    for (const from of STATUSES.filter(isTerminalTask)) {
      assert.ok(STATUSES.every((to) => !canMoveTask(from, to)))
    }
  })

  it('can fail or be placed again from every open status', () => {
    const open = STATUSES.filter((status) => !isTerminalTask(status))

    assert.deepEqual(taskStatusesBefore('failed'), open)
    assert.deepEqual(taskStatusesBefore('queued'), open)
  })

  it('succeeds only after a node has claimed it', () => {
    assert.ok(!canMoveTask('queued', 'succeeded'))
    assert.ok(!canMoveTask('assigned', 'succeeded'))
    assert.ok(canMoveTask('claimed', 'succeeded'))
  })

  it("maps only a node's known progress steps to statuses", () => {
    assert.equal(taskStatusOf('warming_up'), 'loading_model')
    assert.equal(taskStatusOf('downloading_model'), 'downloading_model')
    assert.equal(taskStatusOf('succeeded'), undefined)
    assert.equal(taskStatusOf('dancing'), undefined)
  })
})
