import assert from 'node:assert/strict'
import { memoryCurves } from '../../console/src/parts/memory-curves.ts'
import { bestOf } from '../../console/src/parts/runs/curves.ts'

const epochs = (...losses: number[]) =>
  losses.map((val_loss, at) => ({ epoch: at + 1, train_loss: 1, val_loss }))

describe("a run's losses", () => {
  it('name the best epoch only if it was long before the last one', () => {
    assert.equal(bestOf(epochs(5, 3, 4, 4, 4))?.epoch, 2)
    assert.equal(bestOf(epochs(5, 4, 3, 2, 2.1)), undefined)
    assert.equal(bestOf([]), undefined)
  })
})

describe("a node's memory as lines", () => {
  const at = (minute: number) => new Date(minute * 60_000).toISOString()
  const point = (minute: number, ram_max_mb: number) => ({ at: at(minute), ram_avg_mb: 1, ram_max_mb })
  const total = { reserved_max_mb: 0, total_mb: 1 }
  const history = {
    step_s: 60,
    node: [
      { ...point(0, 3_000), ...total },
      { ...point(3, 1_000), vram_max_mb: 500, ...total },
    ],
    processes: [
      { model_key: 'wool', name: null, points: [point(0, 2_000)] },
      { run_id: 'r', name: 'linen', points: [point(0, 1_000), { ...point(3, 1_000), vram_max_mb: 500 }] },
    ],
  }

  it('have gaps where nothing was measured', () => {
    const { x, curves } = memoryCurves(history, 'ram')
    assert.deepEqual(x, [0, 60, 120, 180])
    assert.deepEqual(curves, [
      { name: 'All processes', values: [3, null, null, 1] },
      { name: 'wool', values: [2, null, null, null] },
      { name: 'Run linen', values: [1, null, null, 1] },
    ])
  })

  it('leave out processes without VRAM, and all but the seven largest', () => {
    assert.deepEqual(
      memoryCurves(history, 'vram').curves.map(({ name }) => name),
      ['All processes', 'Run linen'],
    )
    const many = Array.from({ length: 20 }, () => history.processes[0]!)
    assert.equal(memoryCurves({ ...history, processes: many }, 'ram').curves.length, 8)
    assert.deepEqual(memoryCurves({ ...history, node: [] }, 'ram'), { x: [], curves: [] })
  })
})
