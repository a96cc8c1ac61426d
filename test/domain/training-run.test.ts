import assert from 'node:assert/strict'
import { newId } from '../../domain/ids.ts'
import {
  failureText,
  hardwareFor,
  isTerminal,
  modelKeyOf,
  sourcesOf,
  trainerThreads,
  TRAINING_RUN_TRANSITIONS,
} from '../../domain/training/training-run.ts'
import type { TrainingRunStatus } from '../../schemas/training-run.ts'

const ALL = Object.keys(TRAINING_RUN_TRANSITIONS) as TrainingRunStatus[]

describe('training run states (3.2)', () => {
  it('allow no transition out of a terminal status', () => {
    for (const status of ['completed', 'failed', 'cancelled'] as const) {
      assert.ok(isTerminal(status))
      for (const to of ALL) assert.ok(!sourcesOf(to).includes(status), `${status} -> ${to}`)
    }
  })

  it('never return to pending, and reach completed only from running', () => {
    assert.deepEqual(sourcesOf('pending'), [])
    assert.deepEqual(sourcesOf('completed'), ['running'])
    assert.deepEqual(sourcesOf('cancelled'), ['pending', 'running'])
  })
})

describe('trainer threads', () => {
  it("divide the cores left by the platform among the node's concurrent runs, with at least one each", () => {
    const of = (cores: number, slots: number, share: number) => trainerThreads({ cores, slots, share })

    assert.deepEqual([of(16, 1, 1), of(16, 3, 1), of(16, 3, 0.5)], [15, 5, 2])
    assert.deepEqual([of(1, 1, 1), of(2, 1, 0.5), of(4, 8, 1), of(4, 0, 1)], [1, 1, 1, 3])
  })
})

describe("a run's hardware", () => {
  const cpu = { requiresGpu: false, gpuOnline: true }

  it('is GPU only when one is needed, required, or preferred and online', () => {
    assert.deepEqual(hardwareFor('auto', cpu), { hardware: 'cpu' })
    assert.deepEqual(hardwareFor('cpu_only', cpu), { hardware: 'cpu' })
    assert.deepEqual(hardwareFor('gpu_only', { ...cpu, gpuOnline: false }), { hardware: 'gpu' })
    assert.deepEqual(hardwareFor('gpu_preferred', cpu), { hardware: 'gpu' })
    assert.deepEqual(hardwareFor('gpu_preferred', { ...cpu, gpuOnline: false }), { hardware: 'cpu' })
    assert.deepEqual(hardwareFor('auto', { requiresGpu: true, gpuOnline: false }), { hardware: 'gpu' })
  })

  it('is refused with a reason when a CPU-only run needs a GPU', () => {
    const choice = hardwareFor('cpu_only', { requiresGpu: true, gpuOnline: true })
    assert.match('refused' in choice ? choice.refused : '', /GPU/)
  })
})

describe('model keys', () => {
  it('are slugs of the name, distinct for equal names', () => {
    const id = newId()
    assert.equal(modelKeyOf('  Häuser & Preise! ', id), `hauser-preise-${id.slice(-12)}`)
    assert.notEqual(modelKeyOf('a', newId()), modelKeyOf('a', newId()))
    for (const name of ['日本', 'x'.repeat(300), '--', 'a.b/c']) {
      assert.match(modelKeyOf(name, id), /^[a-z0-9]+(-[a-z0-9]+)*$/)
      assert.ok(modelKeyOf(name, id).length <= 60)
    }
  })
})

describe("a failed run's message", () => {
  it("is the last attempt's own error, or else the end of the log", () => {
    assert.equal(failureText('permanent', { lastError: 'no such column', lastLines: [] }), 'no such column')
    assert.match(
      failureText('fruitless', { lastError: 'out of memory', lastLines: ['x'] }),
      /3 attempts.*out of memory/,
    )
    assert.match(failureText('fruitless', { lastError: null, lastLines: ['epoch 3'] }), /lost[^]*epoch 3/)
  })
})
